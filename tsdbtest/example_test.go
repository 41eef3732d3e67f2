package tsdbtest_test

import (
	"fmt"
	"path/filepath"
	"sort"
	"syscall"
	"time"

	"github.com/seed347100a3/tsdb/tsdbtest"
)

// saveSettings replaces a file the careless way: it forgets to sync it.
func saveSettings(fs *tsdbtest.MemFS, data string) error {
	f, err := fs.Create("settings.tmp")
	if err != nil {
		return err
	}
	if _, err := f.Write([]byte(data)); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := fs.Rename("settings.tmp", "settings"); err != nil {
		return err
	}
	return fs.SyncDir(filepath.Dir("settings"))
}

// All the states in which a power cut may leave the disk, and what a reader finds.
func ExampleMemFS_CrashStates() {
	fs := tsdbtest.NewMemFS()
	if err := saveSettings(fs, "on"); err != nil {
		fmt.Println(err)
	}

	found := map[string]bool{}
	for disk := range fs.CrashStates(1000) {
		data, err := disk.ReadFile("settings")
		if err != nil {
			fmt.Println(err)
		}
		switch string(data) {
		case "on", "", "\x00\x00":
			found[fmt.Sprintf("%q", data)] = true
		default:
			found["something else"] = true
		}
	}
	var list []string
	for s := range found {
		list = append(list, s)
	}
	sort.Strings(list)
	for _, s := range list {
		fmt.Println(s)
	}
	// Output:
	// ""
	// "\x00\x00"
	// "on"
	// something else
}

// One state, chosen by hand: the name survives, the bytes do not.
func ExampleMemFS_CrashClone() {
	fs := tsdbtest.NewMemFS()
	if err := saveSettings(fs, "on"); err != nil {
		fmt.Println(err)
	}
	disk := fs.CrashClone(tsdbtest.CrashOptions{
		Choose: func(p tsdbtest.Pending) tsdbtest.Outcome {
			if p.Kind == tsdbtest.PendingSector {
				return tsdbtest.Lost
			}
			return tsdbtest.Kept
		},
	})
	data, err := disk.ReadFile("settings")
	fmt.Printf("%q %v\n", data, err)
	fmt.Print(disk.FateString())
	// Output:
	// "\x00\x00" <nil>
	// lost: bytes 0+2 of /settings
	// kept: 1 more
}

// Failing the third operation.
func ExampleMemFS_SetHook() {
	fs := tsdbtest.NewMemFS()
	fs.SetHook(func(op tsdbtest.Op) error {
		fmt.Println(op)
		if op.N == 3 {
			return syscall.EIO
		}
		return nil
	})
	err := saveSettings(fs, "on")
	fmt.Println(err == syscall.EIO)
	// Output:
	// #1 create settings.tmp
	// #2 write settings.tmp (2)
	// #3 close settings.tmp
	// true
}

// A disk that is full, and then is not.
func ExampleMemFS_SetCapacity() {
	fs := tsdbtest.NewMemFS()
	fs.SetCapacity(1)
	fmt.Println(saveSettings(fs, "on"))
	fs.SetCapacity(0)
	_ = fs.Remove("settings.tmp")
	fmt.Println(saveSettings(fs, "on"))
	// Output:
	// write settings.tmp: no space left on device
	// <nil>
}

// A goroutine that works once a minute, without waiting a minute.
func ExampleClock() {
	clock := tsdbtest.NewClock(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
	ticker := clock.NewTicker(time.Minute)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 3 {
			now := <-ticker.C()
			fmt.Println(now.Format("15:04"))
		}
		ticker.Stop()
	}()
	clock.Advance(5 * time.Minute)
	<-done
	// Output:
	// 12:01
	// 12:02
	// 12:03
}
