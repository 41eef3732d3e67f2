// Package vmctl has only tests: vmctl, which moves data of other databases into VictoriaMetrics,
// takes it out of a snapshot of ours and from the server of module prom. The program is Debian's;
// its client of remote read, which that one does not have yet, is a package of a later version. It
// is a package of its own, as that one changes and prints things when a program starts.
package vmctl
