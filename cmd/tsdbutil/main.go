// Command tsdbutil works on database directories from the command line: it records,
// queries, dumps and measures. It uses the public API of the library and nothing
// else. docs/tsdbutil.md describes each command.
package main

import "os"

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}
