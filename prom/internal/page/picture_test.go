package page_test

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"maps"
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
// pictures.
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
	temporary := regexp.MustCompile(regexp.QuoteMeta(os.TempDir()) + `/[^"/]*`)
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
	text = small.Bytes()
	require.Less(p.t, len(text), maxPictureBytes, file)
	if *update {
		require.NoError(p.t, os.MkdirAll(filepath.Dir(file), 0o777))
		require.NoError(p.t, os.WriteFile(file, text, 0o666))
	}
	kept, err := os.ReadFile(file)
	require.NoError(p.t, err, "make it by go test -run TestPage_IsPictured -update")
	require.Less(p.t, len(kept), maxPictureBytes, file)
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
