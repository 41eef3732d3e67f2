package page_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// pictures are those of the documents.
const pictures = "../../../docs/img"

// maxPictureBytes is how large a picture may be.
const maxPictureBytes = 150_000

const picturedQuery = `sum by (code) (rate(http_requests_total{job="web"}[5m]))`

// TestPage_IsPictured looks at the page as the documents show it, and with -update makes the
// pictures. It fails when those that are kept show another page.
func TestPage_IsPictured(t *testing.T) {
	for _, c := range []struct {
		file          string
		width, height int64
		dark          bool
		state         []string
	}{
		{"page-light.png", 1280, 940, false, []string{"q", "node_load1", "range", "6h"}},
		{"page-dark.png", 1280, 940, true, []string{"q", picturedQuery, "range", "12h", "stacked", ""}},
		{"page-phone.png", 360, 740, false, []string{"q", "node_load1", "range", "6h"}},
	} {
		p := newTab(t, tabOptions{width: c.width, height: c.height, dark: c.dark, wrap: inNoTemporaryDirectory})
		p.open(c.state...)
		p.until("document.querySelectorAll('#legend tbody tr').length === 6 && document.getElementById('source').innerText !== ''")
		b := p.box("#chart")
		if c.width > 1000 {
			require.NoError(t, chromedp.Do(p.ctx, chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, b.X+b.W*0.62, b.Y+b.H*0.55)))
			p.until("document.querySelectorAll('.hover tr').length === 6")
		}
		p.picture(filepath.Join(pictures, c.file))
		p.noErrors()
	}
}

func TestPage_HeatMapIsPictured(t *testing.T) {
	p := newTab(t, tabOptions{db: newMeasured(t).db, width: 1280, height: 820, wrap: inNoTemporaryDirectory})
	p.open("q", "rate(http_request_duration_seconds[5m])", "range", "6h")
	p.until("document.querySelector('#heat-0')?.checkVisibility() && document.getElementById('source').innerText !== ''")
	b := p.box("#heat-0")
	require.NoError(t, chromedp.Do(p.ctx, chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, b.X+b.W*0.52, b.Y+b.H*0.56)))
	p.until("document.querySelectorAll('.heat .hover tr').length === 4")
	p.picture(filepath.Join(pictures, "page-heat.png"))
	p.noErrors()
}

// inNoTemporaryDirectory has the page show a directory as a user's.
func inNoTemporaryDirectory(h http.Handler) http.Handler {
	temporary := regexp.MustCompile(regexp.QuoteMeta(os.TempDir()) + `/[^"]*`)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/status/health") {
			h.ServeHTTP(w, r)
			return
		}
		r.Header.Del("Accept-Encoding")
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, r)
		w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
		w.WriteHeader(answer.Code)
		_, _ = w.Write(temporary.ReplaceAll(answer.Body.Bytes(), []byte("/var/lib/metrics"))) // the browser says so
	})
}

func (p *tab) picture(file string) {
	p.t.Helper()
	text, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	require.NoError(p.t, err)
	img, err := png.Decode(bytes.NewReader(text))
	require.NoError(p.t, err)
	require.EqualValues(p.t, p.opts.width, img.Bounds().Dx())
	var small bytes.Buffer
	require.NoError(p.t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, paletted(img)))
	words := eval[string](p, shownWords)
	text = withWords(small.Bytes(), words)
	require.Less(p.t, len(text), maxPictureBytes, file)
	if *update {
		require.NoError(p.t, os.MkdirAll(filepath.Dir(file), 0o777))
		require.NoError(p.t, os.WriteFile(file, text, 0o666))
	}
	kept, err := os.ReadFile(file)
	require.NoError(p.t, err, "make it by go test -run TestPage_IsPictured -update")
	require.Less(p.t, len(kept), maxPictureBytes, file)
	const old = "%s is old: look at the page, and make it by go test -run Pictured -update"
	require.Equal(p.t, words, wordsOf(kept), old, file)
	before, err := png.Decode(bytes.NewReader(kept))
	require.NoError(p.t, err)
	require.Equal(p.t, img.Bounds(), before.Bounds(), old, file)
	require.Less(p.t, unlike(img, before), mostUnlike, old, file)
}

// shownWords are those of the controls and of the heads of tables, without the numbers.
const shownWords = `[...document.querySelectorAll('.top, #controls, th')].map((e) => e.innerText).join(' ').replace(/\d+/g, '0').replace(/\s+/g, ' ').trim()`

// keyOfWords begins the part of a picture that has the words: uncompressed UTF-8, in no language.
const keyOfWords = "Comment\x00\x00\x00\x00\x00"

// withWords puts words into a PNG, before its end: a length, a kind, the data and a checksum.
func withWords(text []byte, words string) []byte {
	const end = 12 // bytes
	part := append([]byte("iTXt"+keyOfWords), words...)
	out := binary.BigEndian.AppendUint32(bytes.Clone(text[:len(text)-end]), uint32(len(part)-4))
	out = append(out, part...)
	out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(part))
	return append(out, text[len(text)-end:]...)
}

// wordsOf are the words of a PNG that withWords made, or nothing.
func wordsOf(text []byte) string {
	before, part, found := bytes.Cut(text, []byte("iTXt"+keyOfWords))
	if !found {
		return ""
	}
	size := binary.BigEndian.Uint32(before[len(before)-4:])
	return string(part[:int(size)-len(keyOfWords)])
}

// coarse is how wide the squares are, in pixels, whose mean brightness is compared: fonts differ
// from one machine to another.
const coarse = 24

// mostUnlike is twice what other fonts make of the page, and half of what one line more at its top
// does.
const mostUnlike = 2.5

// unlike is by how much the squares of two pictures of one size differ in brightness, in the mean;
// 255 is black from white.
func unlike(a, b image.Image) float64 {
	sum, squares := 0.0, 0
	for y := a.Bounds().Min.Y; y < a.Bounds().Max.Y; y += coarse {
		for x := a.Bounds().Min.X; x < a.Bounds().Max.X; x += coarse {
			square := image.Rect(x, y, x+coarse, y+coarse).Intersect(a.Bounds())
			sum += math.Abs(brightness(a, square) - brightness(b, square))
			squares++
		}
	}
	return sum / float64(squares)
}

func brightness(img image.Image, square image.Rectangle) float64 {
	sum := 0
	for y := square.Min.Y; y < square.Max.Y; y++ {
		for x := square.Min.X; x < square.Max.X; x++ {
			sum += int(color.GrayModel.Convert(img.At(x, y)).(color.Gray).Y)
		}
	}
	return float64(sum) / float64(square.Dx()*square.Dy())
}

// near is how far apart two colours of a palette are at least, so that rare ones have a place in
// it.
const near = 3000

func distance(a, b color.NRGBA) int {
	r, g, bl := int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B)
	return 30*r*r + 59*g*g + 11*bl*bl
}

// paletted has the most frequent colours of a picture, and for each other one the nearest of them.
func paletted(img image.Image) *image.Paletted {
	b := img.Bounds()
	frequent := map[color.NRGBA]int{}
	each := func(see func(x, y int, c color.NRGBA)) {
		for y := b.Min.Y; y < b.Max.Y; y++ {
			for x := b.Min.X; x < b.Max.X; x++ {
				see(x, y, color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA))
			}
		}
	}
	each(func(_, _ int, c color.NRGBA) { frequent[c]++ })
	order := slices.SortedFunc(maps.Keys(frequent), func(a, b color.NRGBA) int { return frequent[b] - frequent[a] })
	var palette color.Palette
	for _, c := range order {
		known := slices.ContainsFunc(palette, func(p color.Color) bool { return distance(p.(color.NRGBA), c) < near })
		if !known && len(palette) < 256 {
			palette = append(palette, c)
		}
	}
	out, known := image.NewPaletted(b, palette), map[color.NRGBA]uint8{}
	each(func(x, y int, c color.NRGBA) {
		i, ok := known[c]
		if !ok {
			i = uint8(palette.Index(c))
			known[c] = i
		}
		out.SetColorIndex(x, y, i)
	})
	return out
}
