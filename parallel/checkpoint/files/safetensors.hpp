#pragma once

#include <string>

#include <sinew/parallel/checkpoint/index/index.hpp>

namespace sinew::parallel {

/// The beginning of a file: the header's length in eight bytes, then the header, padded to a multiple of 64.
/// A whole item is a tensor with its name and shape. For a part the name is followed by a description of the part.
/// `name@4:8` has elements 4 to 8 of the flattened item; its shape is [rows, ...] if these are whole rows.
/// `name@[0:4,2:8]` is a box, with the box's shape. `name@[0:4,2:8]@3:9` has elements of that box.
/// Source: the safetensors format, https://huggingface.co/docs/safetensors
std::string safetensors_header(const CheckpointIndex& index, std::int32_t file);

}  // namespace sinew::parallel
