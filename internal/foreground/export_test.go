package foreground

// NoteWay is what MakeWay does before it makes way.
func NoteWay() { calls.Add(1) }
