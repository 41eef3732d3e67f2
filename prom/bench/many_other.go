//go:build !linux

package bench

// residentBytes is what the system has in memory for this process; 0: nobody asks it here.
func residentBytes() float64 { return 0 }
