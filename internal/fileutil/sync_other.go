//go:build !linux

package fileutil

import (
	"os"

	"github.com/pkg/errors"
)

// syncFile flushes the file to the device. os.File.Sync asks darwin for
// F_FULLFSYNC, without which the drive may keep the bytes in its own cache.
func syncFile(f *os.File) error { return errors.WithStack(f.Sync()) }
