#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <sinew/parallel/placement/redistribution/route.hpp>

namespace sinew::parallel {

/// The steps that bring a tensor to other placements, and the bytes that all ranks of the mesh together send in them,
/// with rings.
struct ByteRoute {
  Redistribution plan;
  std::int64_t bytes = 0;
};

/// The routes from one placement of a tensor to any of several, each with the fewest bytes. Nothing is sent to find
/// them, so all ranks find the same.
/// Shape: valid specs. Placements are in normal form.
class ByteRoutes {
 public:
  ByteRoutes(const TensorSpec& from, std::span<const Placements> targets, const Factorisation& mesh);
  ByteRoutes(ByteRoutes&&) = default;
  ByteRoutes(const ByteRoutes&) = delete;  // costs_ refers to roads_

  /// `to`: one of the targets.
  const ByteRoute& route(const Placements& to) const;

 private:
  mutable std::map<std::string, ByteRoute> found_;
  mutable std::unordered_map<const Move*, double> costs_;  // of moves of roads_
  TensorSpec from_;
  Factorisation mesh_;
  Roads roads_;
  std::map<std::string, std::vector<int>> leaders_;  // for each axis, a rank of each group
};

/// A rank of each group of the mesh along an axis.
std::vector<int> leaders_along(std::string_view axis, const Factorisation& mesh);

/// Bytes that all ranks of the mesh together send at least, with rings, to change one placement of a tensor.
/// leaders: of the axis.
std::int64_t bytes_of_move(const TensorSpec& before, std::string_view axis, const Placement& from, const Placement& to,
                           const Factorisation& mesh, std::span<const int> leaders);

}  // namespace sinew::parallel
