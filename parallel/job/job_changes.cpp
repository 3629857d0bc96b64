#include <utility>

#include <sinew/parallel/job/job_changes.hpp>

namespace sinew::parallel {

JobRule of_layout(const RuleOf<LayoutRequest>& rule) {
  const auto layout_of = [](const JobRequest& asked) { return LayoutRequest{asked.ranks, asked.config.layout}; };
  return {rule.name, [=](const JobRequest& asked) { return rule.judge(layout_of(asked)); },
          [=](const JobRequest& asked) {
            std::vector<JobChanges> all;
            for (const ChangesOf<LayoutRequest>& of_one : rule.changes(layout_of(asked))) {
              JobChanges changes;
              for (const ChangeOf<LayoutRequest>& layout : of_one) {
                JobChange change{layout.text, asked};
                change.to.ranks = layout.to.ranks;
                change.to.config.layout = layout.to.sizes;
                changes.push_back(std::move(change));
              }
              all.push_back(std::move(changes));
            }
            return all;
          }};
}

}  // namespace sinew::parallel
