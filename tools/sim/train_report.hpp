#pragma once

#include <cstdint>
#include <string>

#include <sinew/parallel/planner/search/search.hpp>

namespace sinew::tools {

/// The best layouts, and why the others lose.
std::string plan_table(const parallel::Planner& planner, const parallel::PlanResult& result, std::int64_t memory_bytes);
/// The same as one JSON object in one line.
std::string plan_json(const parallel::Planner& planner, const parallel::PlanResult& result, std::int64_t memory_bytes);

/// One layout: what its step and its memory are made of.
std::string layout_table(const parallel::Planner& planner, const parallel::PlannedLayout& layout,
                         std::int64_t memory_bytes);
std::string layout_json(const parallel::Planner& planner, const parallel::PlannedLayout& layout,
                        std::int64_t memory_bytes);

}  // namespace sinew::tools
