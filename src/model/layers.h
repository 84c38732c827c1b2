// The modules of a trace as a tree, and the layer of each allocation.
//
// A layer is a module path ("UNet.down.0.conv"); the layers around it are its prefixes at dots. An
// allocation belongs to the layer whose forward ran; in backward, to the layer of the forward
// operator. But memory that a module owns, such as its parameters, belongs to that module,
// whichever code allocated it. The owner is derived from the tensor's name (base/tensor_owner.h).
//
// Layers are numbered in order of first use; a layer's ancestors have smaller numbers. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "model/ids.h"
#include "model/trace.h"

namespace plimsoll::model {

inline constexpr LayerId kNoLayer{0};

class Layers {
 public:
  explicit Layers(const Trace& trace);

  // Whether the trace has any layers.
  static bool are_known(const Trace& trace) { return trace.has_layers(); }

  LayerId of(const DeviceTrace& device, std::size_t lifetime);
  LayerId named(std::string_view path);
  LayerId find(std::string_view path) const;  // kNoLayer: unknown path

  const std::string& path(LayerId layer) const { return layers_[layer.index()].path; }
  LayerId parent(LayerId layer) const { return layers_[layer.index()].parent; }  // kNoLayer: a root
  std::size_t size() const { return layers_.size(); }  // including kNoLayer

 private:
  struct Layer {
    std::string path;
    LayerId parent;
  };
  LayerId owner_of(StringId tensor_name, StringId category);

  const Trace& trace_;
  std::vector<Layer> layers_;
  std::unordered_map<std::string, LayerId> ids_;
  std::unordered_set<std::string_view> tensor_names_;
  std::vector<std::uint32_t> by_word_;                        // by StringId of a path
  std::unordered_map<std::uint64_t, std::uint32_t> by_name_;  // by tensor name and category
};

}  // namespace plimsoll::model
