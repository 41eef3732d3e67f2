//go:build unix

package fileutil

var diskFullErrnos = diskFullPortable
