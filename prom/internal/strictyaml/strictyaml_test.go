package strictyaml

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

type shelf struct {
	Name  string  `yaml:"name,omitempty"`
	Light Ignored `yaml:"light,omitempty" instead:"the sun shines"`
	Books []struct {
		Title string  `yaml:"title,omitempty"`
		Cover Ignored `yaml:"cover,omitempty" instead:"it is blue"`
	} `yaml:"books,omitempty"`
	Part  `yaml:",inline"`
	Below *shelf `yaml:"below,omitempty"`
}

// Part has keys of what it is in.
type Part struct {
	Wood Ignored `yaml:"wood,omitempty" instead:"it is oak"`
}

func TestNotes_TellEachKeyWithoutEffectOnce(t *testing.T) {
	s := &shelf{}
	require.NoError(t, Decode([]byte("name: a\nwood: ash\nbooks:\n- {title: b, cover: red}\n- title: c\n  cover:\n    front: green\nbelow:\n  light: [1]\nlight:\n"), s))
	require.Equal(t, []Note{{"wood", 2, "it is oak"}, {"books.cover", 4, "it is blue"}, {"below.light", 9, "the sun shines"}}, Notes(s))
	shown, err := yaml.Marshal(s)
	require.NoError(t, err)
	require.Equal(t, "name: a\nbooks:\n    - title: b\n    - title: c\nbelow: {}\n", string(shown))
	require.Empty(t, Notes(&shelf{}))
}

func TestDecode_RefusesWhatItDoesNotKnow(t *testing.T) {
	require.EqualError(t, Decode([]byte("name: a\nlamp: 1\nbelow: {door: 2}\n"), &shelf{}), "line 2: lamp is not known here; line 3: door is not known here")
	require.NoError(t, Decode(nil, &shelf{}))
}
