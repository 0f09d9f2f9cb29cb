#include "launcher/agent/output_collection.h"

#include "launcher/staging/collect.h"

namespace muster {

namespace {

constexpr std::size_t piece_bytes = 1u << 20;  // as for output: cheap frames that take turns

std::string joined(const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& sentence : sentences) text += (text.empty() ? "" : "; ") + sentence;
  return text;
}

}  // namespace

OutputCollection::OutputCollection(ControllerLine& line) : line_(line) {}
OutputCollection::~OutputCollection() = default;

void OutputCollection::begin(const AttemptKey& key, const AttemptLayout& layout) {
  auto reader = CollectReader::open(layout.job, {"outputs", "logs"});
  if (!reader) return line_.send(CollectDone{key.job, key.attempt, reader.error().message, {}});
  readers_[key] = std::make_unique<CollectReader>(std::move(*reader));
  pump();
}

void OutputCollection::pump() {
  for (auto at = readers_.begin(); at != readers_.end();) {
    auto& [key, reader] = *at;
    bool is_over = false;
    while (line_.has_room() && !is_over) {
      const auto piece = reader->next(piece_bytes);
      is_over = !piece.has_value();
      if (is_over) {
        line_.send(
            CollectDone{key.job, key.attempt, joined(reader->problems()), reader->left_out()});
      } else {
        line_.send(FileData{key.job, key.attempt, piece->entry, piece->offset, piece->last},
                   piece->bytes);
      }
    }
    at = is_over ? readers_.erase(at) : std::next(at);
  }
}

void OutputCollection::cancel_all() {
  readers_.clear();
}

}  // namespace muster
