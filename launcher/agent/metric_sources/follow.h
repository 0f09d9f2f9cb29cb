// Metrics that a program writes for TensorBoard, Lightning, the Hugging Face Trainer or MLflow: one
// look at all the files in which it may do so, and the lines that are told of them. MetricState is
// how far they were taken in, for the next look: one that is killed loses nothing. Done in a child
// process, since file systems may hang. What is in the files is hostile: sizes, names, numbers.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/ids.h"
#include "scheduler/restart/pattern.h"
#include "scheduler/text/fields.h"

namespace muster {

struct MetricPlaces {
  std::vector<std::string> directories = {};  // absolute
  std::int64_t since_ms = 0;                  // 1970; what is older is another attempt's
  std::int64_t after_step = 0;                // that it resumed from: what is before was told
};

struct SourcePlace {
  std::int64_t inode = 0;    // another one: the file took the place of this
  std::int64_t version = 0;  // of the file, when all of it was taken in
  std::int64_t at = 0;       // bytes; of a database rows; of checkpoints the last that was read
  std::int64_t told = 0;     // of a table rows, of a history steps
  std::int64_t header = 0;   // of a table, its sum at the last look
  bool is_noted = false;     // what is wrong with it has been said
  bool is_damaged = false;   // nothing more is taken from it
  MUSTER_FIELDS(inode, version, at, told, header, is_noted, is_damaged)
};

struct MetricState {
  std::map<std::string, SourcePlace> places = {};
  std::map<std::string, std::string> writers = {};  // of tags: of several the first counts
  std::optional<std::int64_t> step = {};            // the highest
  MUSTER_FIELDS(places, writers, step)
};

struct MetricPoint {
  std::string tag;
  double value = 0;  // told as null where it is not finite
  std::optional<std::int64_t> step = {};
  std::string writer = {};
};

struct MetricLook {
  MetricState state = {};
  std::vector<MetricPoint> points = {};  // not lines yet
  std::vector<std::string> lines = {};   // JSON, as in $MUSTER_METRICS; lower steps first
  std::vector<std::string> notes = {};
  bool is_cut = false;  // there is more to take in at once
  MUSTER_FIELDS(state, lines, notes, is_cut)

  void make_lines();
  // The lines and notes, and the highest step of all.
  MetricLook take();
};

struct SourceFile {
  std::string path;
  std::string prefix = {};  // of its tags: "version_0/", its folders below the one looked at
  std::string writer = {};  // of its points, where they do not name another
  std::int64_t bytes = 0;   // when it was found
  MetricPlaces places = {};

  MetricPoint point(std::string_view name, double value, std::optional<std::int64_t> step) const;
  void note(const std::string& what_is_wrong, SourcePlace& place, MetricLook& look) const;  // once
};

// What one look takes in, but for what a source reads at once.
inline constexpr std::size_t points_limit = 5000;

MetricLook look_at_metrics(const MetricPlaces& places, MetricState state);

// One file each: adds what came since `place`, and moves it. What is not whole yet waits.
using ReadSource = void(const SourceFile& file, SourcePlace& place, MetricLook& look);
ReadSource read_event_file, read_metrics_csv, read_trainer_state, read_mlflow;

// The scalars of a tensorflow.Event in protobuf's wire format that was written since `since_ms`.
void read_event(std::string_view payload, const SourceFile& file, MetricLook& look);
// "host.123" of "events.out.tfevents.1764240000.host.123.0.v2": a process, whatever it opens.
std::string writer_of(std::string_view name);
// "0.5", "-inf", "nan". Nothing: it is no number.
std::optional<double> value_of(std::string_view text);

std::string text_of(const MetricLook& look);
MetricLook look_of(const std::string& text);

// Metrics in what ranks print (`muster.metrics.regex`): regular expressions with named groups,
// searched line by line while the output is on its way. Owned by an attempt, on the agent's thread:
// lines are cut at 4096 bytes, and what takes more than a fifth of the time is passed over.
class OutputPatterns {
 public:
  using Clock = std::chrono::steady_clock;

  // Patterns, or hf: {'loss': '3.585', 'epoch': 0.1}, as the Hugging Face Trainer prints it.
  void set(const std::vector<std::string>& texts);
  // Bytes of the rank's output; those before are known when they come again.
  void take(RankId rank, std::int64_t offset, std::string_view bytes);
  MetricLook take() { return look_.take(); }

 private:
  struct Printed {
    std::int64_t seen = 0;
    std::string line;  // its beginning, until its end comes
  };

  void take_line(RankId rank, std::string_view line);

  std::vector<Pattern> patterns_;
  bool reads_maps_ = false;
  std::map<RankId, Printed> printed_;
  MetricLook look_;
  bool is_noted_ = false;
  Clock::time_point asked_at_{};
  Clock::duration left_{};  // of the time that may be used
};

}  // namespace muster
