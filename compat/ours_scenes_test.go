package compat

import "testing"

// What we wrote is read by every reader of the reference.
func TestScenes_OfOurs_ReadByTheReference(t *testing.T) {
	eachScene(t, openOurBlocks, 3200, requireReferenceReadsBlocks)
}

// A real Prometheus serves it.
func TestScenes_OfOurs_ServedByPrometheus(t *testing.T) {
	eachScene(t, openOurBlocks, 3200, requireServerReads)
}

// What the reference wrote is read by us.
func TestScenes_OfTheReference_ReadByOurs(t *testing.T) {
	eachScene(t, openTheirBlocks, 3000, requireOursReadsBlocks)
}

func TestOddities_OfTheReference_ReadByOurs(t *testing.T) {
	eachOddity(t, requireOursReadsBlocks)
}
