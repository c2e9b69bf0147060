//! The time that now() shows, moved within a transaction.
//!
//! now(), CURRENT_DATE and the like show when the transaction began, so that everything done in one transaction
//! bears one time. Whoever plays many transactions in one has to move it. PostgreSQL moves it itself in one
//! place: a parallel worker is told the time of the session it works for (SetParallelStartTimestamps,
//! access/xact.h), which sets two variables and does nothing else.

use pgrx::pg_sys;

unsafe extern "C-unwind" {
    // access/xact.h; raises nothing.
    fn SetParallelStartTimestamps(transaction: pg_sys::TimestampTz, statement: pg_sys::TimestampTz);
}

/// While it lives, now() and statement_timestamp() can be set; then they show what they showed before.
pub struct MovedClock {
    transaction: pg_sys::TimestampTz,
    statement: pg_sys::TimestampTz,
}

impl MovedClock {
    /// Remembers the times as they are.
    pub fn new() -> MovedClock {
        // SAFETY: both read a variable of the session.
        unsafe {
            MovedClock {
                transaction: pg_sys::GetCurrentTransactionStartTimestamp(),
                statement: pg_sys::GetCurrentStatementStartTimestamp(),
            }
        }
    }

    /// Lets now() show another time: microseconds since 2000-01-01 UTC.
    pub fn show(&mut self, at: i64) {
        set(at, at);
    }

    /// Lets it show what it showed before, for now.
    pub fn put_back(&mut self) {
        set(self.transaction, self.statement);
    }
}

impl Drop for MovedClock {
    fn drop(&mut self) {
        // Also while a panic unwinds: the transaction may go on, if its caller catches the error.
        self.put_back();
    }
}

fn set(transaction: pg_sys::TimestampTz, statement: pg_sys::TimestampTz) {
    // SAFETY: sets two variables. A server built with assertions wants to see a parallel worker, whose
    // number is not negative; nothing else looks at the number meanwhile.
    unsafe {
        let number = pg_sys::ParallelWorkerNumber;
        pg_sys::ParallelWorkerNumber = number.max(0);
        SetParallelStartTimestamps(transaction, statement);
        pg_sys::ParallelWorkerNumber = number;
    }
}
