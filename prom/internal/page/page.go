// Package page is the page that people see at / of the HTTP server: queries with graphs and tables,
// and views of labels, blocks and health. It is static files, embedded; their scripts ask the HTTP
// API of the server that they come from, and no other host. It knows nothing of a database.
package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"strings"
)

//go:embed assets
var assets embed.FS

// policy lets the page load what the server has, and nothing else: no inline scripts or styles, no
// other host, no frame around it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// types are what browsers must be told of the files.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// comments are lines of scripts and of styles that only their readers need: a tenth of them. They
// are not sent.
var comments = map[string]*regexp.Regexp{
	".js":  regexp.MustCompile(`(?m)^\s*(//.*)?\n`),
	".css": regexp.MustCompile(`(?ms)^\s*(/\*.*?\*/)?\n`),
}

// asset is a file as it is sent.
type asset struct {
	text []byte
	typ  string
	etag string
}

// Handler serves the page at / and what it is made of below /assets/. Other paths are not found. It
// is safe for concurrent use.
func Handler() http.Handler {
	files := load(assets)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		if name == "" {
			name = "assets/index.html"
		}
		f, ok := files[name]
		switch {
		case !ok:
			http.NotFound(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
		default:
			f.serve(w, r)
		}
	})
}

// load reads all files once. What is embedded is there, or the program would not have been built.
func load(files fs.FS) map[string]asset {
	all := map[string]asset{}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if re := comments[path.Ext(name)]; re != nil {
			text = re.ReplaceAll(text, nil)
		}
		sum := sha256.Sum256(text)
		// A weak one: the server may compress.
		all[name] = asset{text, types[path.Ext(name)], `W/"` + hex.EncodeToString(sum[:12]) + `"`}
		return err
	})
	if err != nil {
		panic("BUG: embedded files cannot be read: " + err.Error())
	}
	return all
}

// serve sends a file, or says that the browser's copy is good. Copies are asked about each time, so
// that the scripts of one version never meet those of another.
func (f *asset) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", f.etag)
	if strings.Contains(r.Header.Get("If-None-Match"), f.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", f.typ)
	_, _ = w.Write(f.text) // who asked and went does not want to know
}
