// Package bucketfile reads files in the spelling of Thanos that say which bucket of an object store
// is meant.
package bucketfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-kit/log"
	"github.com/thanos-io/objstore"
	"github.com/thanos-io/objstore/providers/filesystem"
	"github.com/thanos-io/objstore/providers/s3"
	"go.yaml.in/yaml/v3"

	"github.com/seed347100a3/tsdb/prom/internal/strictyaml"
)

// Help says to the user of a flag what such a file is.
const Help = "in the form of Thanos (type: S3 or FILESYSTEM)"

// File is such a file. Its values are checked.
type File struct {
	prefix    string
	directory string // of a bucket that is one
	s3        *s3.Config
}

// described is what every file has.
type described[Config any] struct {
	Type   string `yaml:"type"`
	Config Config `yaml:"config"`
	Prefix string `yaml:"prefix"`
}

// Read reads a file.
func Read(name string) (*File, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	f, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

func parse(text []byte) (*File, error) {
	var whole described[yaml.Node]
	if err := strictyaml.Decode(text, &whole); err != nil {
		return nil, err
	}
	f := &File{prefix: strings.Trim(whole.Prefix, "/")}
	switch strings.ToUpper(whole.Type) {
	case string(objstore.FILESYSTEM):
		var of described[filesystem.Config]
		if err := strictyaml.Decode(text, &of); err != nil {
			return nil, err
		}
		if f.directory = of.Config.Directory; f.directory == "" {
			return nil, errors.New("config.directory is missing")
		}
	case string(objstore.S3):
		of := described[s3.Config]{Config: s3.DefaultConfig}
		if err := strictyaml.Decode(text, &of); err != nil {
			return nil, err
		}
		switch f.s3 = &of.Config; {
		case f.s3.Bucket == "":
			return nil, errors.New("config.bucket is missing")
		case f.s3.Endpoint == "":
			return nil, errors.New("config.endpoint is missing")
		}
	case "":
		return nil, errors.New("type is missing, want S3 or FILESYSTEM")
	default:
		return nil, fmt.Errorf("type %q: want S3 or FILESYSTEM; for other buckets write a program with prom/ship or prom/bucket", whole.Type)
	}
	return f, nil
}

// Open opens the bucket. component is the name of the program, for the store. The store is not asked
// for anything yet.
func (f *File) Open(component string) (objstore.Bucket, error) {
	var bucket objstore.Bucket
	var err error
	if f.s3 != nil {
		bucket, err = s3.NewBucketWithConfig(log.NewNopLogger(), *f.s3, component, nil)
	} else {
		bucket, err = filesystem.NewBucket(f.directory)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", f, err)
	}
	return objstore.NewPrefixedBucket(bucket, f.prefix), nil
}

// Directory returns the directory that the bucket is, if it is one.
func (f *File) Directory() (name string, ok bool) { return f.place(), f.s3 == nil }

// String names the bucket.
func (f *File) String() string {
	if f.s3 == nil {
		return "directory " + f.place()
	}
	return fmt.Sprintf("bucket %s/%s at %s", f.s3.Bucket, f.prefix, f.s3.Endpoint)
}

func (f *File) place() string { return filepath.Join(f.directory, filepath.FromSlash(f.prefix)) }

// CheckApart returns an error if the bucket is a data directory: files would be written over by
// themselves.
func (f *File) CheckApart(dir string) error {
	if f.s3 == nil && resolved(f.place()) == resolved(dir) {
		return fmt.Errorf("%s is the data directory: name another one", f)
	}
	return nil
}

// resolved returns an absolute path without links, as far as it exists.
func resolved(name string) string {
	name, err := filepath.Abs(name)
	if err != nil {
		return name
	}
	rest := ""
	for at := name; ; at = filepath.Dir(at) {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(real, rest)
		}
		if at == filepath.Dir(at) {
			return name
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}
