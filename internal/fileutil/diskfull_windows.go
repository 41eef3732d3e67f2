package fileutil

import "golang.org/x/sys/windows"

var diskFullErrnos = append(diskFullPortable,
	windows.ERROR_DISK_FULL,
	windows.ERROR_HANDLE_DISK_FULL,
	windows.ERROR_DISK_QUOTA_EXCEEDED,
	windows.ERROR_DISK_RESOURCES_EXHAUSTED,
	windows.ERROR_FILE_TOO_LARGE,
)
