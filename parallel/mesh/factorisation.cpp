#include <algorithm>
#include <cstdint>
#include <limits>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/mesh/axis_names.hpp>
#include <sinew/parallel/mesh/factorisation.hpp>

namespace sinew::parallel {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw Error(Code::InvalidArgument, "factorisation: " + why); }

std::vector<std::string> names_of(const std::vector<Axis>& axes) {
  std::vector<std::string> names;
  for (const Axis& a : axes) names.push_back(a.name);
  return names;
}

}  // namespace

Factorisation::Factorisation(std::vector<Axis> axes) : axes_(std::move(axes)) {
  std::int64_t ranks = 1;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const Axis& a = axes_[i];
    if (a.name.empty() || a.name.find('-') != std::string::npos)
      refuse(fmt::format("an axis named '{}': expected a name without '-', which joins several", a.name));
    if (a.size < 1) refuse(fmt::format("axis {} of size {}: expected 1 or more", a.name, a.size));
    for (std::size_t j = 0; j < i; ++j) {
      if (axes_[j].name == a.name) refuse(fmt::format("axis {} is there twice, in {}", a.name, to_string()));
    }
    ranks *= a.size;
    if (ranks > std::numeric_limits<int>::max())
      refuse(fmt::format("{}: more than {} ranks", to_string(), std::numeric_limits<int>::max()));
  }
}

Factorisation Factorisation::ordered(std::string_view order, std::span<const Axis> sizes) {
  std::vector<Axis> axes;
  for (std::string& name : split_names(order)) axes.push_back({std::move(name), 1});
  const auto in_order = static_cast<std::ptrdiff_t>(axes.size());
  std::vector<std::string> given;
  for (const Axis& s : sizes) {
    if (std::ranges::find(given, s.name) != given.end()) refuse(fmt::format("two sizes for axis {}", s.name));
    given.push_back(s.name);
    const auto place =
        std::find_if(axes.begin(), axes.begin() + in_order, [&](const Axis& a) { return a.name == s.name; });
    if (place != axes.begin() + in_order) {
      place->size = s.size;
    } else if (s.size > 1) {
      refuse(fmt::format("order '{}' has no place for axis {} of size {}", order, s.name, s.size));
    } else {
      axes.push_back(s);
    }
  }
  return Factorisation(std::move(axes));
}

int Factorisation::ranks() const noexcept {
  int ranks = 1;
  for (const Axis& a : axes_) ranks *= a.size;
  return ranks;
}

bool Factorisation::has(std::string_view axis) const noexcept {
  return std::ranges::find(axes_, axis, &Axis::name) != axes_.end();
}

std::string Factorisation::in_order(std::string_view axes) const { return join_names(names_of(slice(axes).axes_)); }

int Factorisation::size(std::string_view axes) const { return slice(axes).ranks(); }

int Factorisation::stride(std::string_view axis) const {
  int stride = 1;
  for (std::size_t i = 0; i < place_of(axis); ++i) stride *= axes_[i].size;
  return stride;
}

int Factorisation::index(int rank, std::string_view axes) const {
  require_rank(rank);
  const std::vector<bool> named = named_by(axes);
  int index = 0;
  int weight = 1;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (named[i]) {
      index += rank % axes_[i].size * weight;
      weight *= axes_[i].size;
    }
    rank /= axes_[i].size;
  }
  return index;
}

std::vector<int> Factorisation::group_of(int rank, std::string_view axes) const {
  require_rank(rank);
  const std::vector<bool> named = named_by(axes);
  int first = rank;
  std::vector<int> offsets{0};  // from the group's first rank
  int stride = 1;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const int size = axes_[i].size;
    if (named[i]) {
      first -= rank / stride % size * stride;
      const std::size_t before = offsets.size();
      for (int k = 1; k < size; ++k) {
        for (std::size_t j = 0; j < before; ++j) offsets.push_back(offsets[j] + k * stride);
      }
    }
    stride *= size;
  }
  for (int& r : offsets) r += first;
  return offsets;
}

std::vector<std::vector<int>> Factorisation::groups(std::string_view axes) const {
  std::vector<std::vector<int>> groups;
  for (int rank = 0; rank < ranks(); ++rank) {
    if (index(rank, axes) == 0) groups.push_back(group_of(rank, axes));
  }
  return groups;
}

Factorisation Factorisation::slice(std::string_view axes) const {
  const std::vector<bool> named = named_by(axes);
  std::vector<Axis> kept;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (named[i]) kept.push_back(axes_[i]);
  }
  return Factorisation(std::move(kept));
}

Factorisation Factorisation::split(std::string_view axis, std::vector<Axis> parts) const {
  const std::size_t place = place_of(axis);
  const Factorisation inner(std::move(parts));
  if (inner.ranks() != axes_[place].size)
    refuse(fmt::format("axis {} of size {} cut into {}, which are {}", axis, axes_[place].size, inner.to_string(),
                       inner.ranks()));
  std::vector<Axis> axes = axes_;
  axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(place));
  axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(place), inner.axes_.begin(), inner.axes_.end());
  return Factorisation(std::move(axes));
}

std::string Factorisation::to_string() const {
  std::string text;
  for (const Axis& a : axes_) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", a.name, a.size);
  return text;
}

std::vector<bool> Factorisation::named_by(std::string_view axes) const {
  std::vector<bool> named(axes_.size());
  for (const std::string& name : split_names(axes)) {
    const std::size_t place = place_of(name);
    if (named[place]) refuse(fmt::format("'{}' names axis {} twice", axes, name));
    named[place] = true;
  }
  return named;
}

std::size_t Factorisation::place_of(std::string_view axis) const {
  const auto found = std::ranges::find(axes_, axis, &Axis::name);
  if (found == axes_.end()) refuse(fmt::format("no axis '{}': there are {}", axis, to_string()));
  return static_cast<std::size_t>(found - axes_.begin());
}

void Factorisation::require_rank(int rank) const {
  if (rank < 0 || rank >= ranks()) refuse(fmt::format("rank {}: expected 0..{}", rank, ranks() - 1));
}

}  // namespace sinew::parallel
