package ship

import (
	"encoding/json"
	"path"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
)

// thanosField is the object of meta.json that Thanos reads.
const (
	thanosField   = "thanos"
	thanosVersion = 1
	// source says which program uploaded a block: Thanos treats these as those of its sidecar.
	source = "sidecar"
)

// thanos is that object.
type thanos struct {
	Version      int               `json:"version"`
	Labels       map[string]string `json:"labels"`
	Downsample   downsample        `json:"downsample"`
	Source       string            `json:"source"`
	SegmentFiles []string          `json:"segment_files"`
	Files        []file            `json:"files"`
	IndexStats   indexStats        `json:"index_stats"`
	UploadTime   time.Time         `json:"upload_time"`
}

type downsample struct {
	Resolution int64 `json:"resolution"` // milliseconds; 0: samples as they came
}

// file is a file of a block. The size of the meta file is not known to itself.
type file struct {
	Path string `json:"rel_path"`
	Size int64  `json:"size_bytes,omitempty"`
}

// indexStats tell a reader how much to ask for at once. 0: unknown.
type indexStats struct {
	ChunkMaxSize int64 `json:"chunk_max_size,omitempty"`
}

// encodeMeta returns the meta file as it is in the bucket. What this library does not know of it
// is left out.
func (s *Shipper) encodeMeta(m blockdir.Meta, files []file, stats indexStats) ([]byte, error) {
	of := thanos{Version: thanosVersion, Labels: s.o.Labels.Map(), Source: source, IndexStats: stats, UploadTime: time.Now().UTC()}
	for _, f := range files {
		if path.Dir(f.Path) == chunksDir {
			of.SegmentFiles = append(of.SegmentFiles, path.Base(f.Path))
		}
		of.Files = append(of.Files, f)
	}
	of.Files = append(of.Files, file{Path: metaFile})
	text, err := json.Marshal(of)
	if err != nil {
		return nil, errors.Wrap(err, "encode the labels of a block")
	}
	m.Extra = blockdir.Extra{Meta: map[string]json.RawMessage{thanosField: text}}
	return blockdir.EncodeMeta(m)
}

func decodeThanos(text json.RawMessage) (of thanos, err error) {
	if len(text) == 0 {
		return of, errors.New("no " + thanosField + " in the meta file")
	}
	return of, errors.Wrap(json.Unmarshal(text, &of), "decode "+thanosField)
}
