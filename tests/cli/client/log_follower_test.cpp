#include "cli/client/log_follower.h"

#include "tests/catch.h"
#include "tests/cli/folder.h"

using namespace muster;

namespace {

// Everything heard, as `attempt/rank=bytes` pieces joined per rank in order of arrival.
struct Heard {
  std::string text;
  std::size_t largest = 0;
  std::size_t bytes = 0;

  LogFollower::Sink sink() {
    return [this](AttemptId attempt, RankId rank, std::string_view piece) {
      largest = std::max(largest, piece.size());
      bytes += piece.size();
      if (piece.size() < 1000) {
        text += std::to_string(attempt.value) + "/" + std::to_string(rank.value) + "=";
        text += piece;
      }
    };
  }
};

struct AJob {
  Folder job;
  Heard heard;
};

}  // namespace

TEST_CASE_METHOD(AJob,
                 "a follower gives what was appended since it last looked, partial lines too") {
  LogFollower follower(job.path(), {});
  CHECK_FALSE(follower.poll(heard.sink()));
  job.append("attempt-0/rank-0.log", "part");
  CHECK(follower.poll(heard.sink()));
  job.append("attempt-0/rank-0.log", "ly\n");
  CHECK(follower.poll(heard.sink()));
  CHECK_FALSE(follower.poll(heard.sink()));
  CHECK(heard.text == "0/0=part0/0=ly\n");
}

TEST_CASE_METHOD(
    AJob,
    "files and attempts that appear later are found, an attempt ends before the next begins") {
  LogFollower follower(job.path(), {});
  job.append("attempt-0/rank-1.log", "a");
  follower.poll(heard.sink());
  job.append("attempt-0/rank-0.log", "b");
  job.append("attempt-0/rank-1.log", "c");
  job.append("attempt-1/rank-0.log", "d");
  job.append("attempt-10/rank-0.log", "e");
  job.append("attempt-2/rank-0.log", "f");
  follower.poll(heard.sink());
  CHECK(heard.text == "0/1=a0/0=b0/1=c1/0=d2/0=f10/0=e");
}

TEST_CASE_METHOD(AJob, "other files in the job's directory are not output") {
  job.append("attempt-0/metrics.jsonl", "x");
  job.append("attempt-0/mpirun.log", "x");
  job.append("attempt-0/rank-.log", "x");
  job.append("attempt-0/rank-1x.log", "x");
  job.append("attempt-x/rank-0.log", "x");
  job.append("outputs/rank-0.log", "x");
  LogFollower follower(job.path(), {});
  CHECK_FALSE(follower.poll(heard.sink()));
}

TEST_CASE_METHOD(AJob, "attempts and ranks can be chosen") {
  for (const char* attempt : {"attempt-0", "attempt-1"}) {
    for (const char* rank : {"/rank-0.log", "/rank-1.log", "/rank-2.log"}) {
      job.append(std::string(attempt) + rank, "x");
    }
  }
  LogSelection of_one;
  of_one.attempt = AttemptId{1};
  of_one.ranks = std::set{RankId{2}};
  LogFollower one(job.path(), of_one);
  one.poll(heard.sink());
  CHECK(heard.text == "1/2=x");
  heard.text.clear();
  LogSelection of_later;
  of_later.ranks = std::set{RankId{0}};
  of_later.first_attempt = AttemptId{1};
  LogFollower later(job.path(), of_later);
  later.poll(heard.sink());
  CHECK(heard.text == "1/0=x");
}

TEST_CASE_METHOD(AJob,
                 "a tail begins at the last lines of what is there and then follows everything") {
  job.append("attempt-0/rank-0.log", "1\n2\n3\n4\n");
  LogSelection tail;
  tail.tail_lines = 2;
  LogFollower follower(job.path(), tail);
  follower.poll(heard.sink());
  job.append("attempt-0/rank-0.log", "5\n");
  job.append("attempt-0/rank-1.log", "6\n7\n8\n");
  follower.poll(heard.sink());
  CHECK(heard.text == "0/0=3\n4\n0/0=5\n0/1=6\n7\n8\n");
}

TEST_CASE_METHOD(AJob, "a huge line passes through in blocks") {
  const std::string megabyte(1 << 20, 'x');
  for (int i = 0; i < 32; ++i) job.append("attempt-0/rank-0.log", megabyte);
  LogFollower follower(job.path(), {});
  follower.poll(heard.sink());
  CHECK(heard.bytes == (32u << 20));
  CHECK(heard.largest <= 256 * 1024);
}

TEST_CASE("bytes that are no text pass unchanged") {
  Folder job;
  const std::string bytes("\xff\x00\xfe\n", 4);
  job.append("attempt-0/rank-0.log", bytes);
  std::string got;
  LogFollower follower(job.path(), {});
  follower.poll([&](AttemptId, RankId, std::string_view piece) { got += piece; });
  CHECK(got == bytes);
}

TEST_CASE("the last lines of a file are found from its end") {
  Folder folder;
  const auto file = folder.path() / "log";
  CHECK(last_lines_of_file(file, 3) == "");
  folder.append("log", "a\nb\nc");
  CHECK(last_lines_of_file(file, 1) == "c");
  CHECK(last_lines_of_file(file, 2) == "b\nc");
  CHECK(last_lines_of_file(file, 9) == "a\nb\nc");
  folder.append("log", "\n");
  CHECK(last_lines_of_file(file, 1) == "c\n");
  CHECK(last_lines_of_file(file, 0) == "");
  folder.append("log", std::string(300000, 'x') + "\nend\n");
  CHECK(last_lines_of_file(file, 1) == "end\n");
  CHECK(last_lines_of_file(file, 2).size() == 64 * 1024);
}
