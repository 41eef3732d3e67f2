//go:build race

package labels_test

// slack is the factor by which the race detector may slow a bounded operation.
const slack = 20
