//go:build !linux

package background

import "github.com/pkg/errors"

// startThread is Runner's start: there is no priority of a single thread here that this package
// knows of.
func startThread(func()) (meter, error) { return nil, errors.New("no thread of a low priority") }
