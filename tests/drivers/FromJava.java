import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.util.Properties;
import java.util.StringJoiner;
import java.util.UUID;
import javax.net.SocketFactory;

/**
 * What a consumer in Java does with JDBC: one transcript, compared with every other driver's.
 *
 * <pre>FromJava SOCKET_FOLDER PORT DATABASE direct|pooled</pre>
 *
 * Rule: the driver's own defaults, with one exception: behind a transaction pooler nothing is prepared on the
 * server, because the next transaction may run on another connection. Java 16 or later, for Unix sockets.
 */
public final class FromJava {
    private static final String CLAIM = "SELECT once.claim_once(?, ?::interval)";
    private final Connection connection;

    private FromJava(Connection connection) {
        this.connection = connection;
    }

    private static void say(Object... words) {
        StringJoiner line = new StringJoiner(" ");
        for (Object word : words) {
            line.add(String.valueOf(word));
        }
        System.out.println(line);
    }

    private boolean claim(Object key) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(CLAIM)) {
            return claim(statement, key);
        }
    }

    private static boolean claim(PreparedStatement statement, Object key) throws SQLException {
        statement.setObject(1, key);
        statement.setString(2, "1 hour");
        try (ResultSet rows = statement.executeQuery()) {
            rows.next();
            return rows.getBoolean(1);
        }
    }

    private void run() throws SQLException {
        connection.setAutoCommit(false);
        say("claim", claim("order-1"), claim("order-1"));
        try (PreparedStatement work = connection.prepareStatement("INSERT INTO work VALUES (?)")) {
            work.setString(1, "order-1");
            work.executeUpdate();
        }
        connection.commit();
        say("redelivered", claim("order-1"));
        connection.commit();

        say("fails later", claim("order-2"));
        try (PreparedStatement fails = connection.prepareStatement("SELECT 1 / ?")) {
            fails.setInt(1, 0);
            fails.executeQuery();
        } catch (SQLException error) {
            say("error", error.getSQLState());
        }
        connection.rollback();
        say("again", claim("order-2"));
        connection.commit();

        Savepoint savepoint = connection.setSavepoint();
        boolean first = claim("order-3");
        connection.rollback(savepoint);
        say("savepoint", first, claim("order-3"), claim("order-3"));
        connection.commit();

        // One statement used again and again, which is what this driver prepares on the server.
        try (PreparedStatement statement = connection.prepareStatement(CLAIM)) {
            for (String word : new String[] {"first", "second"}) {
                StringJoiner answers = new StringJoiner(" ");
                for (int number = 0; number < 10; number++) {
                    answers.add(String.valueOf(claim(statement, "often-" + number)));
                    connection.commit();
                }
                say(word, answers);
            }
            String prepared = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%claim_once%'";
            try (Statement look = connection.createStatement(); ResultSet rows = look.executeQuery(prepared)) {
                rows.next();
                say("prepared", rows.getLong(1) > 0);
            }
            connection.commit();
        }

        UUID token = UUID.fromString("0191b6a8-2f3c-7d4e-8a9b-123456789abc");
        say("uuid", claim(token), claim(token.toString()));
        say("bigint", claim(4711L), claim("4711"));
        String many = "SELECT key, claimed FROM once.claim_many(?, ?::interval)";
        try (PreparedStatement statement = connection.prepareStatement(many)) {
            statement.setArray(1, connection.createArrayOf("text", new String[] {"b", "order-1", "a", "b"}));
            statement.setString(2, "1 hour");
            StringJoiner answers = new StringJoiner(" ");
            try (ResultSet rows = statement.executeQuery()) {
                while (rows.next()) {
                    answers.add(rows.getString(1)).add(String.valueOf(rows.getBoolean(2)));
                }
            }
            say("many", answers);
        }
        try (PreparedStatement statement = connection.prepareStatement("SELECT outcome FROM once.claim(?)")) {
            statement.setString(1, "a");
            try (ResultSet rows = statement.executeQuery()) {
                rows.next();
                say("outcome", rows.getString(1));
            }
        }
        connection.commit();
    }

    public static void main(String[] arguments) throws SQLException {
        Properties settings = new Properties();
        settings.setProperty("user", "postgres");
        settings.setProperty("socketFactory", UnixSockets.class.getName());
        settings.setProperty("socketFactoryArg", arguments[0] + "/.s.PGSQL." + arguments[1]);
        settings.setProperty("sslmode", "disable");
        if (arguments[3].equals("pooled")) {
            settings.setProperty("prepareThreshold", "0");
        }
        try (Connection connection = DriverManager.getConnection("jdbc:postgresql://localhost/" + arguments[2], settings)) {
            new FromJava(connection).run();
        }
    }

    /** The test's servers listen on Unix sockets only, which this driver does not know by itself. */
    public static final class UnixSockets extends SocketFactory {
        private final String path;

        public UnixSockets(String path) {
            this.path = path;
        }

        @Override
        public Socket createSocket() {
            return new UnixSocket(path);
        }

        @Override
        public Socket createSocket(String host, int port) {
            throw new UnsupportedOperationException();
        }

        @Override
        public Socket createSocket(String host, int port, java.net.InetAddress local, int localPort) {
            throw new UnsupportedOperationException();
        }

        @Override
        public Socket createSocket(java.net.InetAddress host, int port) {
            throw new UnsupportedOperationException();
        }

        @Override
        public Socket createSocket(java.net.InetAddress host, int port, java.net.InetAddress local, int localPort) {
            throw new UnsupportedOperationException();
        }
    }

    private static final class UnixSocket extends Socket {
        private final String path;
        private SocketChannel channel;

        UnixSocket(String path) {
            this.path = path;
        }

        @Override
        public void connect(SocketAddress ignored, int timeout) throws IOException {
            channel = SocketChannel.open(UnixDomainSocketAddress.of(path));
        }

        @Override
        public InputStream getInputStream() {
            return Channels.newInputStream(channel);
        }

        @Override
        public OutputStream getOutputStream() {
            return Channels.newOutputStream(channel);
        }

        @Override
        public boolean isConnected() {
            return channel != null;
        }

        @Override
        public void setTcpNoDelay(boolean on) {}

        @Override
        public void setKeepAlive(boolean on) {}

        @Override
        public void setSoTimeout(int timeout) {}

        @Override
        public int getSoTimeout() {
            return 0;
        }

        @Override
        public synchronized void close() throws IOException {
            if (channel != null) {
                channel.close();
            }
        }
    }
}
