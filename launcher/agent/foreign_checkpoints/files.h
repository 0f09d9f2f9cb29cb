// Directories as one look finds them, and what single files of PyTorch and its libraries say of
// themselves: whether they were written to their end. Files are read at both ends only; nothing in
// them is run or unpickled.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// Directories as one look at a program's own checkpoints finds them: names, sizes and times of
// plain files and directories, no links. A look has a limit of time and of entries, since it may
// meet a directory of any size on a file system of any speed.

struct FolderEntry {
  std::string name;
  bool is_folder = false;
  std::int64_t bytes = 0;
  std::int64_t changed_ns = 0;  // since 1970, the last change of the content
  std::int64_t inode = 0;
  std::uint32_t owner = 0;
};

struct ListedFolder {
  std::string path;
  std::vector<FolderEntry> entries = {};  // by name
  std::int64_t changed_ns = 0;            // the last time that an entry came or went
  std::uint32_t owner = 0;
  bool is_partial = false;  // links, or what could not be read: it may hold more

  std::string_view name() const;
  std::string path_of(std::string_view entry) const { return path + "/" + std::string(entry); }
  const FolderEntry* find(std::string_view entry) const;
};

class Look {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Look(std::chrono::milliseconds limit) : end_(Clock::now() + limit) {}
  // Nothing: it cannot be read, or time is up. Of a directory with more entries than are looked at,
  // those with the highest numbers in their names, and those without one.
  std::optional<ListedFolder> open(const std::string& path) const;
  bool is_over() const { return Clock::now() >= end_; }

 private:
  Clock::time_point end_;
};

std::optional<std::int64_t> last_number(std::string_view name);
// The step at the end of a name without its ending: 400 of "epoch=3-step=400" and "model_400"; none
// of "resnet50", "loss=0.25" and "last-v1".
std::optional<std::int64_t> step_named(std::string_view stem);
// The number between `prefix` and `suffix`, which is all that lies between them.
std::optional<std::int64_t> number_between(std::string_view name, std::string_view prefix,
                                           std::string_view suffix = {});

// Unknown: what is there does not tell. It is never taken, and never renamed.
enum class SaveState { complete, unknown, incomplete };  // the worse the later

struct Judged {
  SaveState state = SaveState::complete;
  std::string why = {};  // it is not complete
};

// The worse one of two parts of a checkpoint: incomplete, then unknown.
Judged worse(Judged a, Judged b);
Judged incomplete(std::string why);
Judged unknown(std::string why);

struct TorchFile {
  Judged judged;
  bool is_other = false;  // no file of torch.save's, which is incomplete
};

// torch.save since 1.6: a zip archive, whose directory of at least 22 bytes comes last. Before: a
// pickle, whose end is not known.
TorchFile judge_torch_file(const std::string& path);

// Eight bytes with the header's length, a JSON header that names the last byte, the tensors
// (safetensors 0.8, README).
Judged judge_safetensors(const std::string& path);

// "model.safetensors.index.json" and its like: every file that it names is there and complete.
// Unknown: it is no such index.
Judged judge_index(const ListedFolder& folder, const FolderEntry& index);

// *.pt, *.pth, *.ckpt, *.bin; *.safetensors.
bool has_torch_name(std::string_view name);
bool is_safetensors(std::string_view name);

struct Weights {
  std::size_t models = 0;  // files of a model
  Judged judged;
};

// All files of a folder that hold tensors, and the parts that an index names. Others' files, which
// may be called anything, do not count.
Weights judge_weights(const ListedFolder& folder);

// Of what is beside a model, or a part of one.
bool is_companion(std::string_view name);
// A name that the libraries write themselves.
bool is_of_library(std::string_view name);
// A part that is complete only with all others: "model-00001-of-00003.safetensors".
bool is_part(std::string_view name);
bool is_index(std::string_view name);

// What `number_of` finds in the names of a folder's entries.
using NumberOfName = std::optional<std::int64_t>(std::string_view name);
std::set<std::int64_t> numbers_in(const ListedFolder& folder, NumberOfName* number_of);

// The whole of a regular file, no link, of at most `limit` bytes.
std::optional<std::string> read_small(const std::string& path, std::int64_t limit);
// At most `limit` bytes of one from `offset` on.
std::optional<std::string> read_part(const std::string& path, std::int64_t offset,
                                     std::int64_t limit);

// As Python writes JSON: NaN and Infinity are null here. Discarded: it is not whole, or nested more
// deeply than anything that is looked for.
nlohmann::json read_json(std::string_view text);

// Null where there is none, or `object` is none.
const nlohmann::json& member_of(const nlohmann::json& object, const char* name);

}  // namespace muster
