// Package vmctl has only tests: vmctl, which moves data of other databases into VictoriaMetrics,
// takes it out of a snapshot of ours, for a real server, too, and from the server of module prom.
// Its agent sends to our receiver, and our Writer to its server.
// The programs are Debian's; the client of remote read, which they do not have yet, is a package of
// a later version. It is a package of its own, as that one changes and prints things when a program
// starts.
package vmctl
