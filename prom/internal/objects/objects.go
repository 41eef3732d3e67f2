// Package objects opens buckets of object stores that a file in the spelling of Thanos describes.
package objects

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-kit/log"
	"github.com/thanos-io/objstore"
	"github.com/thanos-io/objstore/providers/filesystem"
	"github.com/thanos-io/objstore/providers/s3"
	"go.yaml.in/yaml/v3"
)

// Help is for flags that name such a file.
const Help = "A file in the form of Thanos, type: S3 or FILESYSTEM, that says which bucket"

// config is such a file.
type config struct {
	Type   string    `yaml:"type"`
	Config yaml.Node `yaml:"config"`
	Prefix string    `yaml:"prefix"`
}

// Open opens the bucket that a file describes. It is for one program; component names it to the
// store. Nothing is asked of the store yet.
func Open(name, component string) (objstore.Bucket, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var c config
	if err := decode(text, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	bucket, err := c.open(component)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return objstore.NewPrefixedBucket(bucket, c.Prefix), nil
}

func (c *config) open(component string) (objstore.Bucket, error) {
	text, err := yaml.Marshal(&c.Config)
	if err != nil {
		return nil, err
	}
	switch c.Type {
	case string(objstore.FILESYSTEM):
		var of filesystem.Config
		if err := decode(text, &of); err != nil {
			return nil, err
		}
		if of.Directory == "" {
			return nil, errors.New("config.directory is missing")
		}
		return filesystem.NewBucket(of.Directory)
	case string(objstore.S3):
		return s3.NewBucket(log.NewNopLogger(), text, component, nil)
	case "":
		return nil, errors.New("type is missing, want S3 or FILESYSTEM")
	}
	return nil, fmt.Errorf("type %q: want S3 or FILESYSTEM; for other buckets write a program with prom/ship or prom/bucket", c.Type)
}

// decode refuses what it does not know.
func decode(text []byte, into any) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}
