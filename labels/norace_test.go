//go:build !race

package labels_test

// slack is 1: bounds on time hold as they are documented.
const slack = 1
