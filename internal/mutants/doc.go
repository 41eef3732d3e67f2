// Package mutants plants faults in the library, one at a time, and demands that a named
// test fails for each. A fault that no test notices says which test is lacking.
//
// The faults are data: testdata/faults.txt has for each the file, the lines as they are, the
// lines as they are with the fault, and the test that must fail. `go test -overlay` builds
// with a changed copy of the file, so nothing in the tree is touched. `make mutants` plants
// them all; `go test ./...` only sees to it that the list still fits the code.
package mutants
