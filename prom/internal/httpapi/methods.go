package httpapi

import (
	"net/http"
	"slices"
	"strings"
)

// methods lets requests of some methods through, and answers what browsers ask before they let a
// page of another host read.
func (a *API) methods(h http.Handler, methods ...string) http.Handler {
	allowed := append([]string{http.MethodOptions}, methods...)
	slices.Sort(allowed)
	allow := strings.Join(allowed, ", ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.allowOrigin(w, r)
		switch {
		case r.Method == http.MethodOptions:
			w.WriteHeader(http.StatusNoContent)
		case !slices.Contains(methods, r.Method):
			w.Header().Set("Allow", allow)
			http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
		default:
			h.ServeHTTP(w, r)
		}
	})
}

func (a *API) allowOrigin(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" || a.Origins == nil || !a.Origins.MatchString(origin) {
		return
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Allow-Headers", "Accept, Authorization, Content-Type, Origin")
	h.Set("Access-Control-Allow-Methods", "GET, POST, OPTIONS")
	h.Set("Access-Control-Expose-Headers", "Date")
}
