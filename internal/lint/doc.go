// Package lint holds the house rules as tests: which package may import which, what a
// program that imports the library links, which calls are confined to one package, and
// how large a file gets. It has no code of its own and nothing imports it.
//
// A rule is a function from a parsed file to what is wrong with it; rules_test.go shows
// each one an example that it must reject and one that it must let pass. A new package
// is added to the table in layers_test.go.
package lint
