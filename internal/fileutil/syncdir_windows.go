package fileutil

// syncDir does nothing: Windows has no flush of a directory; NTFS keeps names in
// its own journal.
func syncDir(string) error { return nil }
