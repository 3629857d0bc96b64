#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/topology/format/text/distance_matrix.hpp>
#include <sinew/topology/format/text/text_matrix.hpp>
#include <sinew/topology/model/distance.hpp>

namespace sinew {
namespace {

struct Row {
  std::string part;  ///< as distance() names it
  std::string title;
};

std::vector<Row> rows_of(const Machine& machine) {
  std::vector<Row> rows;
  for (std::size_t g = 0; g < machine.gpus.size(); ++g) {
    rows.push_back({fmt::format("gpu:{}", g), fmt::format("GPU{}", g)});
  }
  for (const Nic& nic : machine.nics) {
    if (!nic.pci.empty()) rows.push_back({"nic:" + nic.name, nic.name});
  }
  if (machine.gpus.empty() && rows.size() < 2) return {};
  for (const NumaNode& node : machine.numa_nodes) {
    rows.push_back({fmt::format("numa:{}", node.id), fmt::format("NUMA{}", node.id)});
  }
  return rows;
}

std::string meaning_of(Between between) {
  switch (between) {
    case Between::Nothing: return {};
    case Between::NvLink: return "NV#: so many NVLinks";
    case Between::Xgmi: return "XGMI#: so many XGMI links";
    case Between::Pix: return "PIX: at most one PCI switch";
    case Between::Pxb: return "PXB: several PCI switches";
    case Between::Phb: return "PHB: a host bridge";
    case Between::Node: return "NODE: host bridges of a NUMA node";
    case Between::Sys: return "SYS: the way between NUMA nodes";
    case Between::Unknown: return "?: not known where one of them is";
  }
  return {};
}

}  // namespace

std::vector<std::string> distance_matrix(const Machine& machine) {
  const std::vector<Row> rows = rows_of(machine);
  if (rows.empty()) return {};
  std::vector<std::string> titles;
  titles.reserve(rows.size());
  for (const Row& row : rows) titles.push_back(row.title);
  std::vector<bool> used(static_cast<std::size_t>(Between::Unknown) + 1);
  std::vector<std::string> lines = text_matrix(titles, [&](std::size_t row, std::size_t column) {
    const Distance d = distance(machine, rows[row].part, rows[column].part);
    used[static_cast<std::size_t>(d.between)] = true;
    return to_text(d);
  });
  std::vector<std::string> meanings;
  for (std::size_t b = 1; b < used.size(); ++b) {
    if (used[b]) meanings.push_back(meaning_of(static_cast<Between>(b)));
  }
  if (!meanings.empty()) lines.push_back(fmt::format("{}", fmt::join(meanings, "; ")));
  return lines;
}

}  // namespace sinew
