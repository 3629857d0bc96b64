#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/collectives/schedule/schedule_text.hpp>
#include <sinew/core/base/table.hpp>

namespace sinew {
namespace {

std::string text(Slice s) {
  constexpr const char* kSpaces[] = {"in", "out", "scratch"};
  const char* space = kSpaces[static_cast<std::size_t>(s.space)];
  if (s.count == 1) return fmt::format("{}[{}]", space, s.first);
  return fmt::format("{}[{}..{}]", space, s.first, s.first + s.count - 1);
}

std::string mapped(ElementMap map, const std::string& value) {
  switch (map) {
    case ElementMap::None: return value;
    case ElementMap::Scale: return fmt::format("scale({})", value);
    case ElementMap::Encode: return fmt::format("encode({})", value);
    case ElementMap::Decode: return fmt::format("decode({})", value);
  }
  return value;
}

}  // namespace

std::string to_text(const Step& s) {
  switch (s.op) {
    case Op::Send: return fmt::format("send {} as message {} to rank {}", text(s.a), s.match, s.peer);
    case Op::Recv: {
      const std::string message = fmt::format("message {} from rank {}", s.match, s.peer);
      const std::string value = s.a.count > 0 ? fmt::format("{} + {}", text(s.a), message) : message;
      return fmt::format("recv {} = {}", text(s.dst), mapped(s.map, value));
    }
    case Op::Copy: return fmt::format("copy {} = {}", text(s.dst), mapped(s.map, text(s.a)));
    case Op::Reduce:
      if (s.map == ElementMap::Decode)
        return fmt::format("reduce {} = {} + {}", text(s.dst), text(s.a), mapped(s.map, text(s.b)));
      return fmt::format("reduce {} = {}", text(s.dst), mapped(s.map, fmt::format("{} + {}", text(s.a), text(s.b))));
  }
  return {};
}

std::string to_text(const Program& p) {
  std::string out = fmt::format("rank {} of {}, {}: {} steps; chunks: {} in, {} out, {} scratch{}\n", p.rank, p.ranks,
                                p.in_place ? "in place" : "out of place", p.steps.size(), p.in_class.size(),
                                p.out_class.size(), p.scratch_class.size(), p.sized ? "; messages are sized" : "");
  constexpr std::size_t kUsualStep = 45;  // most steps have fewer characters
  Table table({Column{.align = Align::Right, .width = 5}, {.width = kUsualStep}, {}});
  const std::span<const std::uint32_t> dependencies(p.dependencies);
  for (std::size_t i = 0; i < p.steps.size(); ++i) {
    const Step& s = p.steps[i];
    const auto after = dependencies.subspan(s.deps.first, s.deps.count);
    out += table.row(
        {std::to_string(i), to_text(s), after.empty() ? "" : fmt::format("after {}", fmt::join(after, ", "))});
  }
  return out;
}

}  // namespace sinew
