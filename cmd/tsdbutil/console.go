package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/term"
)

// Widths in columns. Output is laid out for the terminal, within reason.
const (
	defaultWidth = 80
	minWidth     = 60
	maxWidth     = 160 // longer lines are hard to follow
)

// console is where data and messages go, and what may be done there. Data goes to
// out, everything else to err.
type console struct {
	out, err    io.Writer
	terminal    bool // out is a terminal: units for people
	errTerminal bool // err is a terminal: progress bars
	colour      bool // out takes colours
	width       int  // columns
}

// newConsole looks at two files and at the environment.
func newConsole(out, err *os.File) *console {
	c := &console{
		out: out, err: err,
		terminal:    term.IsTerminal(int(out.Fd())),
		errTerminal: term.IsTerminal(int(err.Fd())) && os.Getenv("TERM") != "dumb",
		width:       defaultWidth,
	}
	c.colour = wantsColour(c.terminal, runtime.GOOS, os.Getenv)
	if columns, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil {
		c.width = columns
	} else if w, _, err := term.GetSize(int(out.Fd())); err == nil {
		c.width = w
	}
	c.width = min(max(c.width, minWidth), maxWidth)
	return c
}

// wantsColour follows NO_COLOR and CLICOLOR_FORCE, NO_COLOR first. Old consoles of
// Windows show escape sequences as text, and nothing there says that they do not.
func wantsColour(terminal bool, goos string, getenv func(string) string) bool {
	switch {
	case getenv("NO_COLOR") != "":
		return false
	case getenv("CLICOLOR_FORCE") != "" && getenv("CLICOLOR_FORCE") != "0":
		return true
	case !terminal || getenv("TERM") == "dumb":
		return false
	default:
		return goos != "windows" || getenv("WT_SESSION") != "" || getenv("TERM") != ""
	}
}

// Select Graphic Rendition codes, the few that are readable on any background.
const (
	sgrBold  = "1"
	sgrDim   = "2"
	sgrRed   = "31"
	sgrGreen = "32"
)

// paint colours a text if that is wanted.
func (c *console) paint(sgr, text string) string {
	if !c.colour || text == "" {
		return text
	}
	return "\x1b[" + sgr + "m" + text + "\x1b[0m"
}

// printf writes data. Its error is not looked at: output is flushed and checked
// where it matters, and a reader who went away is told by main.
func (c *console) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(c.out, format, args...)
}

// message writes a line for people.
func (c *console) message(format string, args ...any) {
	_, _ = fmt.Fprintf(c.err, "tsdbutil: "+format+"\n", args...)
}
