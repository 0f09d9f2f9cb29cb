#include "launcher/agent/staging.h"

#include "launcher/agent/attempt_files.h"
#include "launcher/stage/blob_receiver.h"
#include "launcher/stage/materialize.h"
#include "launcher/wire/message_codec.h"

namespace muster {

namespace {

// A tree of 100,000 files copied on a slow disk; beyond it something hangs.
constexpr Milliseconds staging_limit{15 * 60 * 1000};

// In a child: what is missing, or the trees built and StageDone.
FromAgent build_trees(const StageTrees& request, const BlobStore& store,
                      const AttemptLayout& layout) {
  StageDone done{request.job, request.attempt, {}};
  const auto missing = missing_blobs(request.trees, store);
  if (!missing.empty()) return WantBlobs{request.job, request.attempt, missing};
  std::error_code failed;
  std::filesystem::create_directories(layout.job, failed);
  for (Tree tree : request.trees) {
    if (tree.place == "code") tree.place = std::filesystem::path(layout.code).filename().string();
    if (Status built = materialize(tree, store, layout.job); !built) {
      done.error = built.error().message;
      return done;
    }
  }
  if (Status prepared = prepare_code(layout); !prepared) done.error = prepared.error().message;
  return done;
}

Result<FromAgent> decode_one(const std::string& bytes) {
  FrameReader reader;
  reader.feed(std::as_bytes(std::span(bytes)));
  auto frame = reader.next();
  if (!frame || !*frame) return Error{"staging gave no answer"};
  auto received = decode_from_agent(std::move(**frame));
  if (!received) return received.error();
  return std::move(received->message);
}

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
  const AttemptKey key{request.job, request.attempt};
  if (Status opened = open_store(); !opened) return fail(key, opened.error().message);
  Entry& entry = entries_[key];
  if (entry.is_staged) return line_.send(StageDone{key.job, key.attempt, {}});
  entry.request = request;
  entry.wanted.clear();
  if (!entry.is_looking) look(key);
}

void AttemptStaging::look(const AttemptKey& key) {
  Entry& entry = entries_[key];
  entry.is_looking = true;
  tasks_.run(
      [request = entry.request, &store = *store_, layout = layout_of(run_, key)] {
        return encode(build_trees(request, store, layout));
      },
      staging_limit,
      [this, key](std::optional<std::string> frame) { looked(key, std::move(frame)); });
}

void AttemptStaging::looked(const AttemptKey& key, std::optional<std::string> frame) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;  // forgotten meanwhile
  found->second.is_looking = false;
  if (!frame) return fail(key, "staging was killed or took longer than 15 minutes on this node");
  auto answer = decode_one(*frame);
  if (!answer) return fail(key, answer.error().message);
  if (const auto* wants = std::get_if<WantBlobs>(&*answer)) {
    found->second.wanted.insert(wants->hashes.begin(), wants->hashes.end());
  } else if (const auto* done = std::get_if<StageDone>(&*answer)) {
    if (!done->error.empty()) return fail(key, done->error);
    found->second.is_staged = true;
    found->second.request.trees.clear();
  }
  line_.send_encoded(std::move(*frame));
}

void AttemptStaging::receive(const BlobData& piece, std::string_view payload) {
  if (!receiver_) return;
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

void AttemptStaging::forget(const AttemptKey& key) {
  entries_.erase(key);
}

void AttemptStaging::fail(const AttemptKey& key, const std::string& error) {
  entries_.erase(key);
  line_.send(StageDone{key.job, key.attempt, error});
}

}  // namespace muster
