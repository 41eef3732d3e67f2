package page_test

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// rgb is linear light.
type rgb [3]float64

// Colour vision in which one kind of cones is missing, after Viénot, Brettel and Mollon (1999), and
// for blue ones the matrix of Machado, Oliveira and Fernandes (2009).
var visions = map[string][3]rgb{
	"usual":                   {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"without cones for red":   {{0.11238, 0.88762, 0}, {0.11238, 0.88762, 0}, {0.00401, -0.00401, 1}},
	"without cones for green": {{0.29275, 0.70725, 0}, {0.29275, 0.70725, 0}, {-0.02234, 0.02234, 1}},
	"without cones for blue":  {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
}

func (c rgb) seen(m [3]rgb) (out rgb) {
	for i, row := range m {
		out[i] = min(1, max(0, row[0]*c[0]+row[1]*c[1]+row[2]*c[2]))
	}
	return out
}

// lab is where a colour stands among all that people tell apart; distances in it are what they see.
func (c rgb) lab() [3]float64 {
	f := func(v float64) float64 {
		if v > 0.008856 {
			return math.Cbrt(v)
		}
		return 7.787*v + 16.0/116
	}
	x := f((0.4124*c[0] + 0.3576*c[1] + 0.1805*c[2]) / 0.9505)
	y := f(c.luminance())
	z := f((0.0193*c[0] + 0.1192*c[1] + 0.9505*c[2]) / 1.089)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

func (c rgb) luminance() float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] }

func contrast(a, b rgb) float64 {
	la, lb := a.luminance(), b.luminance()
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

// themes are the colours of the style sheet by their names.
func themes(t *testing.T) map[string]map[string]rgb {
	text, err := os.ReadFile("assets/theme.css")
	require.NoError(t, err)
	all := map[string]map[string]rgb{"light": {}, "dark": {}}
	for _, c := range regexp.MustCompile(`--([\w-]+): light-dark\(#(\w{6}), #(\w{6})\);`).FindAllStringSubmatch(string(text), -1) {
		all["light"][c[1]], all["dark"][c[1]] = parsed(t, c[2]), parsed(t, c[3])
	}
	require.Greater(t, len(all["light"]), 30)
	return all
}

// parsed returns a colour of six hexadecimal digits.
func parsed(t *testing.T, hex string) (c rgb) {
	t.Helper()
	for i := range c {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		require.NoError(t, err)
		c[i] = linear(float64(n) / 255)
	}
	return c
}

func linear(v float64) float64 {
	if v <= 0.04045 {
		return v / 12.92
	}
	return math.Pow((v+0.055)/1.055, 2.4)
}

func TestPalette_ColoursAreToldApartByAllEyes(t *testing.T) {
	const leastDistance = 12 // about five times what is just seen
	for theme, colours := range themes(t) {
		for vision, m := range visions {
			for i := range 8 {
				for k := range i {
					a, b := colours[fmt.Sprintf("series-%d", i)].seen(m).lab(), colours[fmt.Sprintf("series-%d", k)].seen(m).lab()
					d := math.Sqrt((a[0]-b[0])*(a[0]-b[0]) + (a[1]-b[1])*(a[1]-b[1]) + (a[2]-b[2])*(a[2]-b[2]))
					if d < leastDistance {
						t.Errorf("%s, eyes %s: series %d and %d are %.1f apart", theme, vision, i, k, d)
					}
				}
			}
		}
	}
}

// Colours of heat go on from the ground: each is told from the one before by how light it is alone.
func TestPalette_HeatGetsDeeperStepByStep(t *testing.T) {
	const steps, leastLightness, leastContrast = 5, 9, 1.1
	for theme, c := range themes(t) {
		for vision, m := range visions {
			before := c["ground"].seen(m)
			direction := 1.0
			if before.luminance() > 0.5 {
				direction = -1
			}
			for i := range steps {
				heat := c[fmt.Sprintf("heat-%d", i)].seen(m)
				if i == 0 {
					if r := contrast(heat, before); r < leastContrast {
						t.Errorf("%s, eyes %s: the first colour of heat has a contrast of %.2f", theme, vision, r)
					}
				} else if d := (heat.lab()[0] - before.lab()[0]) * direction; d < leastLightness {
					t.Errorf("%s, eyes %s: heat %d differs by %.1f of lightness", theme, vision, i, d)
				}
				before = heat
			}
			if r := contrast(before, c["ground"].seen(m)); r < 7 {
				t.Errorf("%s, eyes %s: the last colour of heat has a contrast of %.2f", theme, vision, r)
			}
		}
	}
}

func TestPalette_TextAndLinesStandOut(t *testing.T) {
	for theme, c := range themes(t) {
		for i := range 8 {
			name := fmt.Sprintf("series-%d", i)
			if r := contrast(c[name], c["ground"]); r < 3 {
				t.Errorf("%s: %s has a contrast of %.2f", theme, name, r)
			}
		}
		for _, pair := range [][2]string{
			{"text", "ground"}, {"quiet", "ground"}, {"quiet", "raised"}, {"text", "soft"}, {"accent", "ground"}, {"accent", "accent-soft"}, {"on-accent", "accent"},
			{"error", "error-soft"}, {"warning", "warning-soft"}, {"info", "info-soft"}, {"good", "good-soft"},
			{"metric", "ground"}, {"function", "ground"}, {"keyword", "ground"}, {"label", "ground"}, {"string", "ground"}, {"number", "ground"}, {"error", "ground"},
		} {
			if r := contrast(c[pair[0]], c[pair[1]]); r < 4.5 {
				t.Errorf("%s: %s on %s has a contrast of %.2f", theme, pair[0], pair[1], r)
			}
		}
	}
}
