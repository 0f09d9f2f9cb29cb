#include "runtime/checkpoint/file/write.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;

double mb_per_s(std::uint64_t bytes, Clock::time_point begin) {
  return static_cast<double>(bytes) / 1e6 /
         std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string rate_text(WriteWay way, double mb_per_s) {
  return std::string(write_way_name(way)) + " " +
         std::to_string(static_cast<std::uint64_t>(mb_per_s)) + " MB/s";
}

}  // namespace

FileWrite::FileWrite(CheckpointFile file, std::string path, std::uint64_t bytes,
                     WriteChoice& choice)
    : file_(std::move(file)),
      path_(std::move(path)),
      bytes_(bytes),
      choice_(&choice),
      needs_trial_(!choice.way && bytes >= choice.trial_from_bytes),
      way_(choice.way.value_or(WriteWay::buffered)) {}

Checked<FileWrite> FileWrite::begin(const std::string& path, std::uint64_t bytes,
                                    WriteChoice& choice) {
  auto file = CheckpointFile::create(path, bytes);
  if (!file) return file.fault();
  FileWrite write(std::move(file.value()), path, bytes, choice);
  if (write.needs_trial_) return write;
  if (auto opened = write.open_engine(write.way_); !opened) {
    choice.way = WriteWay::buffered;
    choice.reason = opened.reason();
    if (auto other = write.open_engine(WriteWay::buffered); !other) return other.fault();
  }
  return write;
}

Checked<NoValue> FileWrite::open_engine(WriteWay way) {
  auto engine = open_write_engine(way, path_);
  if (!engine && way == WriteWay::direct_ring) {
    way = WriteWay::direct_threads;
    engine = open_write_engine(way, path_);
  }
  if (!engine) return engine.fault();
  engine_ = std::move(engine.value());
  way_ = way;
  return NoValue{};
}

void FileWrite::put(std::uint64_t offset, std::span<const char> piece) {
  if (needs_trial_) {
    kept_.push_back({offset, piece});
  } else {
    engine_->put(offset, piece);
  }
}

// Writes what is kept up to byte `end`.
Checked<NoValue> FileWrite::write_kept(WriteWay way, std::uint64_t end) {
  if (auto opened = open_engine(way); !opened) return opened;
  for (; begun_ < kept_.size() && kept_[begun_].offset < end; ++begun_) {
    engine_->put(kept_[begun_].offset, kept_[begun_].bytes);
  }
  return engine_->drain();
}

// What O_DIRECT could not write is written again, the other way; after an fdatasync that failed
// nothing is.
Checked<NoValue> FileWrite::choose_way() {
  if (!needs_trial_) return NoValue{};
  needs_trial_ = false;
  const std::uint64_t each = std::min(write_trial_bytes, bytes_ / 4);
  auto begin = Clock::now();
  if (auto wrote = write_kept(WriteWay::buffered, each); !wrote) return wrote;
  if (auto synced = file_.sync(); !synced) return synced;
  const double buffered_rate = mb_per_s(each, begin);
  const std::size_t after_first = begun_;
  begin = Clock::now();
  const auto direct = write_kept(WriteWay::direct_ring, 2 * each);
  if (!direct) begun_ = after_first;
  if (auto synced = file_.sync(); !synced) return synced;
  const double direct_rate = direct ? mb_per_s(each, begin) : 0;
  choice_->way = direct_rate > buffered_rate ? way_ : WriteWay::buffered;
  choice_->reason = rate_text(WriteWay::buffered, buffered_rate) + ", " +
                    (direct ? rate_text(way_, direct_rate) : direct.reason());
  if (way_ != *choice_->way) {
    if (auto opened = open_engine(*choice_->way); !opened) return opened;
  }
  for (; begun_ < kept_.size(); ++begun_) {
    engine_->put(kept_[begun_].offset, kept_[begun_].bytes);
  }
  kept_.clear();
  return NoValue{};
}

std::string FileWrite::description() const {
  const std::string name = write_way_name(way_);
  return choice_->reason.empty() ? name : name + " (" + choice_->reason + ")";
}

Checked<NoValue> FileWrite::finish() {
  if (auto chosen = choose_way(); !chosen) return chosen;
  const auto drained = engine_->drain();
  engine_.reset();
  if (!drained) {
    // Another way may work where this one does not.
    if (way_ != WriteWay::buffered) choice_->way = WriteWay::buffered;
    return drained;
  }
  if (way_ != WriteWay::buffered && bytes_ % direct_alignment_bytes != 0) {
    if (auto cut = file_.set_size(bytes_); !cut) return cut;
  }
  return file_.sync_and_close();
}

const char* write_way_name(WriteWay way) {
  constexpr const char* names[] = {"buffered", "threads", "io_uring"};
  return names[static_cast<std::size_t>(way)];
}

Checked<std::unique_ptr<WriteEngine>> open_write_engine(WriteWay way, const std::string& path) {
  const bool direct = way != WriteWay::buffered;
  Descriptor fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | (direct ? O_DIRECT : 0)));
  if (!fd) {
    return CheckpointFault{path + ": open for " + (direct ? "direct " : "") +
                           "writing failed: " + std::strerror(errno)};
  }
  if (way == WriteWay::direct_ring) return make_ring_writer(std::move(fd), path);
  return make_threaded_writer(std::move(fd), path, direct);
}

}  // namespace muster
