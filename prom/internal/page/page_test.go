package page_test

import (
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/prom/internal/page"
)

// maxBytes is how large the page may be, with all that it loads.
const maxBytes = 150_000

func get(t *testing.T, path string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	page.Handler().ServeHTTP(w, r)
	return w.Result()
}

func TestPage_IsSmall(t *testing.T) {
	var size int64
	require.NoError(t, fs.WalkDir(os.DirFS("assets"), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		path := "/assets/" + name
		if name == "index.html" {
			path = "/"
		}
		sent, err := io.ReadAll(get(t, path).Body)
		size += int64(len(sent))
		return err
	}))
	require.Greater(t, size, int64(10_000))
	require.Less(t, size, int64(maxBytes))
	t.Logf("the page has %d bytes", size)
}

func TestPage_HasNothingOfOtherHosts(t *testing.T) {
	elsewhere := regexp.MustCompile(`(https?:)?//[a-z]`)
	inline := regexp.MustCompile(`(?i)\son[a-z]+=|style=|<style|<script>|javascript:|\beval\(|innerHTML|new Function`)
	require.NoError(t, fs.WalkDir(os.DirFS("assets"), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile("assets/" + name)
		require.NoError(t, err)
		known := strings.ReplaceAll(string(text), "http://www.w3.org/2000/svg", "")
		require.NotRegexp(t, elsewhere, known, name)
		require.NotRegexp(t, inline, known, name)
		return nil
	}))
}

func TestPage_IsServedWithStrictHeaders(t *testing.T) {
	for path, typ := range map[string]string{
		"/": "text/html; charset=utf-8", "/assets/app.js": "text/javascript; charset=utf-8",
		"/assets/theme.css": "text/css; charset=utf-8", "/assets/icon.svg": "image/svg+xml",
	} {
		res := get(t, path)
		require.Equal(t, http.StatusOK, res.StatusCode, path)
		require.Equal(t, typ, res.Header.Get("Content-Type"), path)
		require.Equal(t, "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "+
			"base-uri 'none'; form-action 'none'; frame-ancestors 'none'", res.Header.Get("Content-Security-Policy"), path)
		require.Equal(t, "nosniff", res.Header.Get("X-Content-Type-Options"), path)
		require.Equal(t, "no-referrer", res.Header.Get("Referrer-Policy"), path)
		require.Equal(t, "no-cache", res.Header.Get("Cache-Control"), path)
	}
}

func TestPage_CopyOfTheBrowserIsUsedAgain(t *testing.T) {
	tag := get(t, "/assets/app.js").Header.Get("ETag")
	require.NotEmpty(t, tag)
	require.NotEqual(t, tag, get(t, "/assets/api.js").Header.Get("ETag"))
	require.Equal(t, http.StatusNotModified, get(t, "/assets/app.js", "If-None-Match", tag).StatusCode)
	require.Equal(t, http.StatusOK, get(t, "/assets/app.js", "If-None-Match", `W/"other"`).StatusCode)
}

func TestPage_OtherPathsAreNotFound(t *testing.T) {
	for _, path := range []string{"/assets/", "/assets/none.js", "/assets/../page.go", "/page.go", "/other"} {
		require.Equal(t, http.StatusNotFound, get(t, path).StatusCode, path)
	}
	w := httptest.NewRecorder()
	page.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
}

// Each colour stands once, with its values in light and in dark; no other style sheet has a light
// or dark of its own.
func TestPage_EachColourStandsOnce(t *testing.T) {
	text, err := os.ReadFile("assets/theme.css")
	require.NoError(t, err)
	names := map[string]bool{}
	for _, line := range regexp.MustCompile(`(?m)^\s*--([\w-]+):`).FindAllStringSubmatch(string(text), -1) {
		require.False(t, names[line[1]], line[1])
		names[line[1]] = true
	}
	require.Greater(t, len(names), 30)
	require.Empty(t, regexp.MustCompile(`(?m)^\s*--[\w-]+: (#|rgb).*$`).FindAllString(string(text), -1))
	require.NoError(t, fs.WalkDir(os.DirFS("assets"), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".css") {
			return err
		}
		text, err := os.ReadFile("assets/" + name)
		require.NoError(t, err)
		require.NotContains(t, string(text), "prefers-color-scheme", name)
		return nil
	}))
}
