// The tokens that a run trains on: finding them, verifying them together, opening them.
//
// --data names text, which every rank holds in memory byte by byte, or files of tokens, which are
// mapped. Files of tokens are found before anything else is planned, for they decide the
// vocabulary; they are verified by all ranks together, each a share of what it reads in common with
// others.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/manifest.h"
#include "runtime/communicator/communicator.h"
#include "runtime/data/sampler.h"
#include "runtime/data/shard_cache.h"
#include "runtime/data/token_dataset.h"
#include "runtime/train/step/options.h"

namespace muster {

struct TrainingData {
  std::unique_ptr<TokenSource> tokens;
  std::unique_ptr<ShardCache> cache;  // reads through `tokens`: ends first
  const char* unit = "text";          // what windows are made of
  SamplerState fingerprint;           // of the data, at its beginning
  std::string remark;                 // what was verified, one sentence; empty for text
  std::string tokenizer;              // its tokenizer.json, on rank 0; empty: there is none

  TrainingData() = default;
  TrainingData(TrainingData&&) = default;
  TrainingData& operator=(TrainingData&&) = default;
};

// What is known before anything is read: the files of tokens, or none for text, and the options
// with the vocabulary of the data where none was chosen.
struct TrainingDataPlan {
  std::optional<TokenDataset> dataset;
  TrainOptions options;
};

// Throws StartError, the same on all ranks, also when they find different data or when the model
// would know fewer tokens than the data. Collective.
TrainingDataPlan plan_training_data(const TrainOptions& options, Communicator& ranks);

// Opens the data. `left_out`: directories that hold no text, though they may lie in one that does.
// Throws StartError, the same on all ranks. Collective.
TrainingData open_training_data(const TrainOptions& options, std::optional<TokenDataset> dataset,
                                const std::vector<std::string>& left_out, const std::string& host,
                                Communicator& ranks);

// Puts the tokenizer beside the checkpoints, for exports of them; returns what went wrong.
std::string keep_tokenizer(const TrainingData& data, const std::string& checkpoint_root);

// Throws StartError when there is not even one window to train on.
void check_windows(const TrainingData& data, const Sampler& sampler, std::uint64_t context);

}  // namespace muster
