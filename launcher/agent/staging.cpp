#include "launcher/agent/staging.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "launcher/agent/image/pull.h"
#include "launcher/agent/keeper/files.h"
#include "launcher/agent/node/spawn.h"
#include "launcher/data/cache.h"
#include "launcher/data/output_content.h"
#include "launcher/data/stream.h"
#include "launcher/os/read_file.h"
#include "launcher/staging/beneath.h"
#include "launcher/staging/blob_store.h"
#include "launcher/staging/file_sink.h"
#include "launcher/staging/materialize.h"
#include "launcher/wire/message_codec.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// As for the container that runs it, and how the node reaches the rest of the world.
Environment environment_of_runtime() {
  const Environment own = own_environment();
  Environment environment = base_environment(own);
  for (const char* name :
       {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"}) {
    if (const auto found = own.find(name); found != own.end()) environment.insert(*found);
  }
  return environment;
}

// Where the image is not here yet, what brings it; else the files that it came as are not wanted.
Result<std::optional<ImageFetch>> image_step(StageTrees& request, const std::string& home,
                                             const ChildTasks::Tell& tell) {
  std::optional<ImageFetch> fetch;
  if (!request.image) return fetch;
  fetch.emplace(*request.image, home, environment_of_runtime(), tell);
  const auto is_here = fetch->is_here();
  if (!is_here) return is_here.error();
  if (!*is_here) return fetch;
  std::erase_if(request.trees, [](const Tree& tree) { return tree.place == ImagePull::place; });
  fetch.reset();
  return fetch;
}

std::optional<ImageFetch::Failure> bring_image(ImageFetch& fetch, StageTrees& request,
                                               const BlobStore& store,
                                               const AttemptLayout& layout) {
  const auto files = std::ranges::find(request.trees, ImagePull::place, &Tree::place);
  if (files == request.trees.end()) return fetch.bring("");
  const std::string directory = layout.job + "/" + files->place;
  if (Status laid = materialize(*files, store, layout.job); !laid) return {{laid.error().message}};
  auto failed = fetch.bring(directory);
  Status removed = remove_tree(directory);
  if (!failed && !removed) failed.emplace(removed.error().message);
  request.trees.erase(files);
  return failed;
}

// `inputs/<name>` of the job leads to the tree.
Status lead_to(const std::string& tree, const std::string& link) {
  std::error_code failure;
  std::filesystem::create_directories(std::filesystem::path(link).parent_path(), failure);
  const std::string made = link + ".new";
  ::unlink(made.c_str());
  if (!std::filesystem::is_symlink(link, failure)) std::filesystem::remove_all(link, failure);
  if (::symlink(tree.c_str(), made.c_str()) == 0 && ::rename(made.c_str(), link.c_str()) == 0) {
    return Done{};
  }
  return system_error("make " + link);
}

std::string cache_of(const StagedData& data, const RunDirectory& run) {
  return data.cache.empty() ? run.home + "/data" : data.cache;
}

// As long as these are open, no other job removes the data.
Result<std::vector<Fd>> hold_data(const StageTrees& request, const RunDirectory& run) {
  std::vector<Fd> held;
  for (const StagedData& data : request.data) {
    if (data.how != "output") {
      auto cache = DataCache::open(cache_of(data, run));
      if (!cache) return cache.error();
      auto lock = cache->hold(data.manifest);
      if (!lock) return Error{"the data of input '" + data.input + "' are just being removed"};
      held.push_back(std::move(*lock));
    }
    if (data.how == "stage") continue;
    auto stream = hold_stream(stream_directory(run.path, request.job, request.attempt, data));
    if (!stream) return stream.error();
    held.push_back(std::move(*stream));
  }
  return held;
}

// Where the data are: in the cache, or mounted.
StagedTree tree_of(const StagedData& data, std::string_view manifest, const StageTrees& request,
                   const RunDirectory& run, const ChildTasks::Tell& tell) {
  StagedTree staged = stage_data(data, manifest, cache_of(data, run), run.node.value, tell);
  if (!staged.stream_cache) return staged;
  const auto directory = stream_directory(run.path, request.job, request.attempt, data);
  const StreamCache kept{cache_of(data, run) + "/streams", *staged.stream_cache, staged.first_file};
  if (!staged.failure) {
    const Status begun = begin_stream(data, directory, kept, "node " + run.node.value, tell);
    if (!begun) staged.failure = StagingFailure{begun.error().message};
  }
  staged.path = (directory / "mount" / "d").string();
  return staged;
}

// What the store has of an output, others may write to meanwhile.
std::optional<StagingFailure> bring_output(const StagedData& output, const StageTrees& request,
                                           const RunDirectory& run, const AttemptLayout& layout,
                                           const ChildTasks::Tell& tell) {
  std::optional<StagingFailure> failure;
  for (int tries = 0; tries == 0 || (tries < 3 && failure && failure->has_changed); ++tries) {
    auto content = look_at_output(output, layout.job, run.node.value, tell);
    if (!content) return StagingFailure{content.error().message};
    auto cache = DataCache::open(cache_of(output, run));
    if (!cache) return StagingFailure{cache.error().message};
    const auto held = cache->hold(content->data.manifest);
    StagedTree staged;
    if (!content->missing.files.empty()) {
      staged = tree_of(content->data, data_manifest_text(content->missing), request, run, tell);
    }
    failure = staged.failure;
    if (failure) continue;
    const bool is_mounted = staged.stream_cache.has_value();
    const Status laid = lay_output(*content, layout.job, staged.path, is_mounted, tell);
    if (!laid) failure = StagingFailure{"node " + run.node.value + ": " + laid.error().message};
  }
  return failure;
}

// What the inputs of the job lead to, and which of them are mounts; what outputs have already.
// Nothing: all is there.
std::optional<StagingFailure> bring_data(const StageTrees& request, const BlobStore& store,
                                         const RunDirectory& run, const AttemptLayout& layout,
                                         const ChildTasks::Tell& tell,
                                         std::vector<std::string>& streamed) {
  remove_left_streams(run.path);
  for (const StagedData& data : request.data) {
    if (const std::string why = unsafe_path_reason(data.input);
        !why.empty() || data.input.find('/') != std::string::npos) {
      return StagingFailure{"the input's name cannot be used: " + why, true};
    }
    if (data.how == "output") {
      if (auto failure = bring_output(data, request, run, layout, tell)) return failure;
      continue;
    }
    const StagedTree staged =
        tree_of(data, text_of_file(store.path_of(data.manifest)), request, run, tell);
    if (staged.failure) return staged.failure;
    if (staged.stream_cache) streamed.push_back(data.input);
    if (auto linked = lead_to(staged.path, layout.inputs + "/" + data.input); !linked) {
      return StagingFailure{linked.error().message};
    }
  }
  return std::nullopt;
}

// In a child: what is missing, or the trees built and StageDone.
FromAgent build_trees(StageTrees request, const BlobStore& store, const RunDirectory& run,
                      const AttemptLayout& layout, const ChildTasks::Tell& tell) {
  StageDone done{request.job, request.attempt, {}};
  const auto failed = [&](const std::string& why, bool is_lasting = false) -> FromAgent {
    done.error = why;
    done.lasting = is_lasting;
    return done;
  };
  auto image = image_step(request, run.home, tell);
  if (!image) return failed(image.error().message);
  const auto missing = missing_blobs(request.trees, store);
  if (!missing.empty()) return WantBlobs{request.job, request.attempt, missing};
  if (*image) {
    const auto failure = bring_image(**image, request, store, layout);
    done.no_registry = failure && failure->no_registry;
    if (failure) return failed(failure->why, failure->is_lasting);
  }
  if (const auto failure = bring_data(request, store, run, layout, tell, done.streamed)) {
    return failed(failure->message, failure->is_lasting);
  }
  for (Tree tree : request.trees) {
    const auto placing = [&](const std::string& path) { tell(tree.place + "/" + path); };
    if (tree.place == "code") tree.place = std::filesystem::path(layout.code).filename().string();
    Status built = materialize(tree, store, layout.job, placing);
    if (!built) return failed(built.error().message);
  }
  if (Status prepared = prepare_code(layout); !prepared) done.error = prepared.error().message;
  return done;
}

// "inputs/data/a.bin", for the first file of the request that waits for one of these blobs.
std::string first_waiting(const StageTrees& request, const std::set<std::string>& wanted) {
  for (const Tree& tree : request.trees) {
    for (const TreeEntry& entry : tree.entries) {
      if (wanted.contains(entry.hash)) return tree.place + "/" + entry.path;
    }
  }
  return "a file";
}

constexpr Milliseconds told_interval{5000};
constexpr std::size_t piece_bytes = 1u << 20;  // as for output: cheap frames that take turns

}  // namespace

AttemptStaging::AttemptStaging(const RunDirectory& run, ControllerLine& line, ChildTasks& tasks)
    : run_(run), line_(line), tasks_(tasks) {}
AttemptStaging::~AttemptStaging() = default;

Status AttemptStaging::open_store() {
  if (store_) return Done{};
  auto opened = BlobStore::open(run_.home + "/blobs");
  if (!opened) return opened.error();
  store_ = std::make_unique<BlobStore>(std::move(*opened));
  receiver_ = std::make_unique<BlobReceiver>(*store_);
  return Done{};
}

void AttemptStaging::stage(const StageTrees& request) {
  const AttemptKey key = key_of(request);
  if (Status opened = open_store(); !opened) return fail(key, opened.error().message);
  Entry& entry = entries_[key];
  if (entry.is_staged) return line_.send(done_again(key));
  entry.request = request;
  entry.wanted.clear();
  if (!entry.is_looking) look(key);
}

StageDone AttemptStaging::done_again(const AttemptKey& key) const {
  const auto found = entries_.find(key);
  StageDone done{key.job, key.attempt, {}};
  if (found != entries_.end()) done.streamed = found->second.streamed;
  return done;
}

void AttemptStaging::look(const AttemptKey& key) {
  Entry& entry = entries_[key];
  if (entry.held.empty()) {
    auto held = hold_data(entry.request, run_);
    if (!held) return fail(key, "node " + run_.node.value + ": " + held.error().message);
    entry.held = std::move(*held);
  }
  entry.is_looking = true;
  entry.task = tasks_.run(
      [request = entry.request, &store = *store_, &run = run_,
       layout = layout_of(run_, key)](const ChildTasks::Tell& tell) {
        return encode(build_trees(request, store, run, layout, tell));
      },
      stall_limit, [this, key](Result<std::string> frame) { looked(key, std::move(frame)); },
      [this, key](const std::string& doing) { told(key, doing); });
  entry.told_at = boot_time();
}

// What is short is not told of.
void AttemptStaging::told(const AttemptKey& key, const std::string& doing) {
  const auto found = entries_.find(key);
  if (found == entries_.end() || boot_time() - found->second.told_at < told_interval) return;
  found->second.told_at = boot_time();
  line_.send(StageMoved{key.job, key.attempt, doing});
}

void AttemptStaging::looked(const AttemptKey& key, Result<std::string> frame) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  entry.is_looking = false;
  if (!frame && entry.request.image) clear_image_parts();
  if (entry.is_unwanted) return static_cast<void>(entries_.erase(found));
  if (!frame)
    return fail(key, "staging on node " + run_.node.value + " failed: " + frame.error().message);
  auto answer = message_of(*frame);
  if (!answer) return fail(key, answer.error().message);
  if (const auto* wants = std::get_if<WantBlobs>(&*answer)) {
    entry.wanted.insert(wants->hashes.begin(), wants->hashes.end());
    entry.moved_at = boot_time();
  } else if (const auto* done = std::get_if<StageDone>(&*answer)) {
    if (!done->error.empty()) return fail(key, done->error, done->lasting, done->no_registry);
    entry.is_staged = true;
    entry.streamed = done->streamed;
    entry.request.trees.clear();
    entry.request.image.reset();
    entry.request.data.clear();
  }
  line_.send_encoded(std::move(*frame));
}

void AttemptStaging::receive(const BlobData& piece, std::string_view payload) {
  if (!receiver_) return;
  for (auto& [key, entry] : entries_) entry.moved_at = boot_time();
  auto arrived = receiver_->accept(piece, payload);
  std::vector<AttemptKey> concerned;
  for (const auto& [key, entry] : entries_) {
    if (entry.wanted.contains(piece.hash)) concerned.push_back(key);
  }
  for (const AttemptKey& key : concerned) {
    if (!arrived) {
      fail(key, arrived.error().message);
      continue;
    }
    if (!*arrived && !piece.last) continue;
    auto& wanted = entries_[key].wanted;
    wanted.erase(piece.hash);
    if (wanted.empty()) look(key);
  }
}

void AttemptStaging::line_lost() {
  if (receiver_) receiver_->reset();
  for (auto& [key, entry] : entries_) entry.wanted.clear();
}

void AttemptStaging::poll(BootTime now) {
  std::vector<AttemptKey> stalled;
  for (const auto& [key, entry] : entries_) {
    const bool is_waiting = line_.is_open() && !entry.wanted.empty();
    if (is_waiting && now - entry.moved_at > stall_limit) stalled.push_back(key);
  }
  const auto limit_s = std::chrono::duration_cast<std::chrono::seconds>(stall_limit).count();
  for (const AttemptKey& key : stalled) {
    const Entry& entry = entries_[key];
    fail(key, "staging on node " + run_.node.value + " failed: nothing came from the controller " +
                  "for " + std::to_string(limit_s) + " s, while it waits for '" +
                  first_waiting(entry.request, entry.wanted) + "' and " +
                  std::to_string(entry.wanted.size() - 1) + " more; check the network");
  }
}

void AttemptStaging::cancel(const AttemptKey& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  // What is staged is held: ranks may still read it.
  if (found->second.is_staged && !found->second.held.empty()) return;
  if (!found->second.is_looking) return static_cast<void>(entries_.erase(found));
  found->second.is_unwanted = true;
  tasks_.stop(found->second.task);
}

bool AttemptStaging::is_busy(const AttemptKey& key) const {
  const auto found = entries_.find(key);
  return found != entries_.end() && found->second.is_looking;
}

bool AttemptStaging::knows(const JobId& job) const {
  return std::ranges::any_of(entries_, [&job](const auto& item) { return item.first.job == job; });
}

void AttemptStaging::fail(const AttemptKey& key, const std::string& error, bool lasting,
                          bool no_registry) {
  entries_.erase(key);
  line_.send(StageDone{key.job, key.attempt, error, lasting, {}, no_registry});
}

// A child was killed, perhaps in a pull.
void AttemptStaging::clear_image_parts() {
  tasks_.run(
      [home = run_.home](const ChildTasks::Tell&) {
        remove_left_image_parts(home);
        return std::string();
      },
      stall_limit, [](const Result<std::string>&) {});
}

OutputCollection::OutputCollection(ControllerLine& line) : line_(line) {}
OutputCollection::~OutputCollection() = default;

void OutputCollection::begin(const AttemptKey& key, const AttemptLayout& layout) {
  auto known = left_as_laid(layout.job);
  auto reader = known ? CollectReader::open(layout.job, {"outputs", "logs"}, *known)
                      : Result<CollectReader>(known.error());
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
        line_.send(CollectDone{key.job, key.attempt, joined(reader->problems(), "; "),
                               reader->left_out()});
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
