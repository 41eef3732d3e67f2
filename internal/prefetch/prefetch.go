// Package prefetch asks for lines of the cache before they are needed. Nobody waits for them: a
// load of a line that no cache has keeps a processor from going on once its window of some three hundred
// instructions is full, so reading ahead pays only where many lines are read at once. An address that is not
// mapped does no harm, and what is asked for is not read as far as Go's memory model is concerned. On
// architectures that are not listed in asm.go the functions do nothing.
//
// They are calls, of about two nanoseconds, as the compiler inlines no assembly.
package prefetch
