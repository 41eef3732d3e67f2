package remote

import (
	"mime"
	"net/http"
	"strings"

	"github.com/pkg/errors"
)

// writeVersion is one of the messages of remote write.
type writeVersion int

const (
	writeV1 writeVersion = iota
	writeV2
	writeVersions
)

// Media types, and the messages that their parameter proto names.
const (
	writeMediaType = "application/x-protobuf"
	writeNameV1    = "prometheus.WriteRequest"
	writeNameV2    = "io.prometheus.write.v2.Request"
)

// versionOf chooses the message by the headers, before anything of the body is looked at.
func (h *WriteHandler) versionOf(header http.Header) (writeVersion, error) {
	version, err := parseWriteType(header.Get("Content-Type"))
	if err != nil {
		return 0, err
	}
	if h.isOff(version) {
		return 0, errVersionOff
	}
	for _, encoding := range header.Values("Content-Encoding") {
		if encoding != snappyEncoding && encoding != "" {
			return 0, errors.WithMessagef(errWriteEncoding, "%.40q", encoding)
		}
	}
	return version, nil
}

// parseWriteType reads a content type. None is that of 1.0.
func parseWriteType(text string) (writeVersion, error) {
	switch text { // as the common clients send it
	case "", writeMediaType:
		return writeV1, nil
	case writeMediaType + ";proto=" + writeNameV2:
		return writeV2, nil
	}
	media, parameters, err := mime.ParseMediaType(text)
	if err != nil || media != writeMediaType {
		return 0, errors.WithMessagef(errMediaType, "content type %.80q, want %s", text, writeMediaType)
	}
	message, given := parameters["proto"]
	switch {
	case !given, strings.EqualFold(message, writeNameV1):
		return writeV1, nil
	case strings.EqualFold(message, writeNameV2):
		return writeV2, nil
	default:
		return 0, errors.WithMessagef(errMediaType, "message %.80q, want %s or %s", message, writeNameV1, writeNameV2)
	}
}

func (h *WriteHandler) isOff(version writeVersion) bool {
	return version == writeV1 && h.opts.NoV1 || version == writeV2 && h.opts.NoV2
}

// versionIn is the version of a message. What the headers say need not be true: there are senders
// that give a message of 1.0 the content type of 2.0. Fields have different numbers in each; a
// message that has none of either is of the version that is said.
func versionIn(content []byte, said writeVersion) writeVersion {
	r := readFields(content)
	for r.next() {
		switch r.num {
		case 1, 3:
			return writeV1
		case 4, 5:
			return writeV2
		}
	}
	return said
}
