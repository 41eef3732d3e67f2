// Package sender has only tests: the field's suite for senders of remote write, run against our
// server, which scrapes and sends.
package sender
