package labels

import "regexp/syntax"

// RunsRegexp says whether a matcher may have to run its expression.
func RunsRegexp(m *Matcher) bool { return m.re.re != nil }

// CountInstructions is the estimate that MaxRegexpInstructions is compared with.
func CountInstructions(re *syntax.Regexp) int { return countInstructions(re) }
