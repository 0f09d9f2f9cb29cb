
#include <fcntl.h>
#include <sys/stat.h>

#include "launcher/os/fd.h"
#include "launcher/staging/blob_store.h"
#include "launcher/staging/file_sink.h"
#include "launcher/staging/materialize.h"
#include "tests/launcher/staging/trees.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

std::int64_t taken_bytes(const fs::path& file) {
  struct stat facts {};
  REQUIRE(::lstat(file.c_str(), &facts) == 0);
  return std::int64_t{facts.st_blocks} * 512;
}

// Data at the beginning, in the middle (at no block's boundary), nothing at the end.
std::string mostly_empty() {
  std::string content(16u << 20, '\0');
  content.replace(0, 5, "begin");
  content.replace(9'000'001, 6, "middle");
  return content;
}

std::int64_t written_taking(const Folder& folder, const std::string& content, std::size_t piece) {
  const fs::path path = folder / "written";
  fs::remove(path);
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  for (std::size_t at = 0; at < content.size(); at += piece) {
    REQUIRE(write_sparse(file.get(), std::string_view(content).substr(at, piece)));
  }
  REQUIRE(end_sparse(file.get()));
  CHECK(folder.read("written") == content);
  return taken_bytes(path);
}

}  // namespace

TEST_CASE("what is written with holes reads as it was, in pieces of any size") {
  Folder folder;
  const std::string content = mostly_empty();
  for (const std::size_t piece : {4096u, 5000u, 65536u, 16u << 20}) {
    CHECK(written_taking(folder, content, piece) <= 64 << 10);
  }
  for (const std::string& small : {std::string(), std::string(1, '\0'), std::string(4097, '\0'),
                                   std::string(4096, 'x') + std::string(4096, '\0') + "y"}) {
    for (const std::size_t piece : {1u, 4095u, 4096u, 8192u}) written_taking(folder, small, piece);
  }
}

TEST_CASE("holes stay holes from the submitter through the blobs of a node into the job's tree") {
  Folder folder;
  folder.directory("source");
  const std::string content = mostly_empty();
  {
    const Fd file(::open((folder / "source/file").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    REQUIRE(write_sparse(file.get(), content));
    REQUIRE(end_sparse(file.get()));
  }
  const BlobStore here = store_in(folder);
  const Snapshot snapshot = snapshot_of(folder / "source", here);
  const TreeEntry entry = entry_of(snapshot.tree, "file");
  CHECK(taken_bytes(here.path_of(entry.hash)) <= 64 << 10);

  BlobStore there = store_in(folder, "node/blobs");
  BlobReceiver receiver(there);
  constexpr std::size_t piece_bytes = 256u << 10;
  for (std::int64_t at = 0; at <= entry.size_bytes; at += piece_bytes) {
    const auto piece = here.read(entry.hash, at, piece_bytes);
    REQUIRE(piece);
    REQUIRE(receiver.accept({entry.hash, at, piece->size() < piece_bytes}, *piece));
  }
  CHECK(taken_bytes(there.path_of(entry.hash)) <= 64 << 10);

  REQUIRE(materialize(snapshot.tree, there, folder / "job"));
  CHECK(folder.read("job/code/file") == content);
  CHECK(taken_bytes(folder / "job/code/file") <= 64 << 10);
}

TEST_CASE("holes of a result stay holes on its way back") {
  Folder folder;
  folder.directory("node/outputs");
  folder.directory("job");
  const std::string content = mostly_empty();
  {
    const fs::path path = folder / "node/outputs/m";
    const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    REQUIRE(write_sparse(file.get(), content));
    REQUIRE(end_sparse(file.get()));
  }
  auto reader = CollectReader::open(folder / "node", {"outputs"});
  auto sink = FileSink::open(folder / "job", {"outputs"});
  REQUIRE((reader && sink));
  while (const auto piece = reader->next(256u << 10)) {
    REQUIRE(sink->accept(0, piece->entry, piece->offset, piece->bytes, piece->last));
  }
  REQUIRE(sink->finish());
  CHECK(folder.read("job/outputs/m") == content);
  CHECK(taken_bytes(folder / "job/outputs/m") <= 64 << 10);
}

}  // namespace muster
