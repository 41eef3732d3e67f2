// Package receiver runs the field's suite for receivers of remote write 2.0 against our server. It
// is a module of its own, as the suite needs an older version of what others use.
package receiver
