#pragma once

#include <gpt/train/options.hpp>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/job/engine_facts.hpp>

/// What exchanges take by the cost model that this World has. Seconds.
struct ExchangeTimes {
  struct Bucket {
    double ready = 0;  ///< the share of the backward pass after which its gradients are there
    double seconds = 0;
  };
  std::vector<Bucket> gradients;  ///< in the order in which they start
  double gathers_of_pass = 0;     ///< of parameters, in each pass
  double gathers_of_step = 0;     ///< once, behind the update
  double of_layer = 0;            ///< tensor- and context-parallel, of one layer and micro-batch, both passes
  double of_ends = 0;             ///< of embeddings and head, likewise
  double tied = 0;                ///< of embeddings that a pipeline's ends share, in a step
  double to_next_stage = 0;       ///< a message of a pipeline
  bool data_leaves_host = false;  ///< gradients go to other hosts: links carry them while ranks compute
};

/// All ranks call it.
ExchangeTimes exchange_times(sinew::World& world, const gpt::Options& options);
