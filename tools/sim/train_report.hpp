#pragma once

#include <cstdint>
#include <string>

#include <sinew/parallel/planner/search/search.hpp>

namespace sinew::tools {

/// The best layouts, and why the other layouts are rejected or slower.
std::string plan_table(parallel::Planner& planner, const parallel::PlanResult& result, std::int64_t memory_bytes);
/// The same as one JSON object on one line.
std::string plan_json(parallel::Planner& planner, const parallel::PlanResult& result, std::int64_t memory_bytes);

/// One layout, with the parts of its step time and of its memory.
std::string layout_table(parallel::Planner& planner, const parallel::PlannedLayout& layout, std::int64_t memory_bytes);
std::string layout_json(parallel::Planner& planner, const parallel::PlannedLayout& layout, std::int64_t memory_bytes);

}  // namespace sinew::tools
