// Finds sibling layers that are worth a checkpoint, and estimates what checkpoints save.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "findings/peak/peak.h"
#include "report/attribution.h"

namespace plimsoll::findings {

// The figure by which layers are compared: bytes saved for backward or, if those are unknown,
// activations at the peak.
using Measure = std::uint64_t report::LayerBytes::*;
using LayerRows = std::vector<const report::LayerRow*>;

std::uint64_t sum_of(const LayerRows& rows, Measure measure);

// Layers of the device, none inside another, that are worth a checkpoint, in natural order. Equal
// siblings count together, because each of 40 may be small.
LayerRows blocks_of(const std::vector<report::LayerRow>& layers, std::int32_t device,
                    Measure measure);

// "Net.blocks.0…11, Net.neck and 3 layers more".
std::string names_of(const LayerRows& blocks);

// "Net.blocks.0…11 hold 44.0 MiB of it: 12 × 3.7 MiB."
std::string blocks_text(const LayerRows& blocks, Measure measure);

// Omits the layers that already run through torch.utils.checkpoint.
LayerRows without_checkpoint(Peak& peak, const LayerRows& blocks);

// Omits the layers whose activations one operator makes (Dropout, a convolution): a checkpoint
// would recompute it and save little.
LayerRows without_single_operators(Peak& peak, const LayerRows& blocks);
// Of these layers, those in a list of layers ("Net.blocks.3"), which are the ones that packages
// checkpoint.
LayerRows in_lists(const LayerRows& blocks);

// Whether the peak is in a forward that failed for lack of memory before its backward began.
bool ends_in_forward(const Peak& peak);

// How much the peak falls if everything allocated inside the blocks, except the last tensor of
// each, is freed after the block has run and allocated again when its backward begins.
std::uint64_t saving_of_checkpoints(Peak& peak, const LayerRows& blocks);

}  // namespace plimsoll::findings
